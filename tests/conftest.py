"""Settings of every test."""

import os
from pathlib import Path

import pytest
import torch
from hypothesis import settings

# Many small computations: threads would spend their time waiting for each other.
torch.set_num_threads(1)

# The same examples in every run, so that a run says something about the change it tests. To look for new ones:
# VISIL_EXAMPLES=new make test
settings.register_profile("same", derandomize=True)
settings.register_profile("new")
settings.load_profile(os.environ.get("VISIL_EXAMPLES", "same"))

LONG = (
    "cluster/test_ray_cluster.py",
    "index/test_index_interrupted.py",
    "training/test_distributed.py",
    "test_demo_collection.py",
    "test_cli.py",
    "index/test_store_s3.py",
    "training/test_trainer.py",
    "web/test_page.py",
    "web/test_page_screens.py",
    "test_copyset.py",
    "web/test_hostile.py",
    "web/test_work.py",
    "web/test_restart.py",
    "training/test_cli_train.py",
    "gpu/test_kernels_compile.py",
    "cluster/test_sharded_identity.py",
)
"""Files that take ten seconds or more, the longest first."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long files first: where several processes take files in turn, none is left with one when the others are done."""
    here = Path(__file__).parent
    places = {name: place for place, name in enumerate(LONG)}
    items.sort(key=lambda item: places.get(item.path.relative_to(here).as_posix(), len(LONG)))
