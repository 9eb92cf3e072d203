"""This machine: its cores and memory, worker processes, and threads that work ahead."""
