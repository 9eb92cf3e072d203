"""A collection on an object store, such as S3."""
