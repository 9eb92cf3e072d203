"""Settings of every test."""

import torch

# Many small computations: threads would spend their time waiting for each other.
torch.set_num_threads(1)
