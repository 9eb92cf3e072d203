"""A collection cut into shards, each a part of its own, that answers as if it were whole."""
