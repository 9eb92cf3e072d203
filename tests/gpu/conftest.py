"""The GPU kernels without a GPU: Triton's interpreter runs them on the CPU, as slowly as it must."""

import os

import pytest
import torch

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # read when a kernel is defined, so before the first import of one

pytest.importorskip("triton", reason="Triton is not installed: pip install 'visil[dev]' (Linux)")


@pytest.fixture
def device() -> torch.device:
    """Where kernels run: a GPU where there is one."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")
