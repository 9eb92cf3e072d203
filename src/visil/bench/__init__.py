"""Measurements of this machine: what ``visil bench`` prints."""
