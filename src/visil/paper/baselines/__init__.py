"""What the paper compares with, one method a file; each works from plain vectors and counts."""
