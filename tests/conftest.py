"""Settings of every test."""

import os

import torch
from hypothesis import settings

# Many small computations: threads would spend their time waiting for each other.
torch.set_num_threads(1)

# The same examples in every run, so that a run says something about the change it tests. To look for new ones:
# VISIL_EXAMPLES=new make test
settings.register_profile("same", derandomize=True)
settings.register_profile("new")
settings.load_profile(os.environ.get("VISIL_EXAMPLES", "same"))
