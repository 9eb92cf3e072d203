"""The paper: from frames to region vectors, and from two videos to one score, as its equations say it."""
