"""Work spread over a Ray cluster: shards in actors, an engine for ``add``, evaluation."""
