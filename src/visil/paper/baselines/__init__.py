"""The systems that the paper compares with, one a file; each works from plain vectors and counts."""
