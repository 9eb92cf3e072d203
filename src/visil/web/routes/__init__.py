"""The calls of the HTTP API, one module for each group of addresses."""
