"""A collection beyond one folder or one machine: shards, and work spread over a Ray cluster."""
