"""A collection of videos: its parts, search in it, and duplicates in it."""
