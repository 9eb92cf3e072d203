"""Several processes that train one model: started by torchrun, each takes its share of every batch.

Gradients are summed over the processes by one all-reduce a step, so that a step is the same however many take part.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from visil.errors import VisilError
from visil.kernels.devices import chosen_device

Item = TypeVar("Item")

CPU = torch.device("cpu")

PATIENCE = timedelta(hours=6)
"""How long a process waits for the others: one may be decoding all videos."""


@dataclass(frozen=True)
class Processes:
    """This process among those that train together; by default it is alone."""

    rank: int = 0
    count: int = 1
    device: torch.device = CPU

    @property
    def first(self) -> bool:
        """Whether this is the one that writes files and talks."""
        return self.rank == 0

    def mine(self, items: Sequence[Item]) -> list[Item]:
        """This process's share."""
        return list(items[self.rank :: self.count])

    def wait(self) -> None:
        """Wait until all processes are here."""
        if self.count > 1:
            with _others():
                dist.barrier()

    def summed(self, values: Sequence[float]) -> list[float]:
        """Each value, summed over all processes."""
        if self.count == 1:
            return list(values)
        tensor = torch.tensor(values, dtype=torch.float64, device=self.device)
        with _others():
            dist.all_reduce(tensor)
        return tensor.tolist()

    def sum_gradients(self, tensors: Mapping[str, Tensor], also: Sequence[float] = ()) -> list[float]:
        """Sum the tensors' gradients over all processes, in place; ``also`` is summed along and returned."""
        if self.count == 1:
            return list(also)
        parts = [t.grad if t.grad is not None else torch.zeros_like(t) for t in tensors.values()]
        extra = torch.tensor(also, dtype=torch.float32, device=self.device)
        flat = torch.cat([*(part.reshape(-1) for part in parts), extra])
        with _others():
            dist.all_reduce(flat)
        *sums, extra = flat.split([*(part.numel() for part in parts), len(also)])
        for tensor, total in zip(tensors.values(), sums, strict=True):
            tensor.grad = total.view_as(tensor).to(tensor.dtype)
        return extra.tolist()


@contextmanager
def joined(device: str = "auto") -> Iterator[Processes]:
    """The processes that torchrun started, or this one alone; ``device`` as in a configuration."""
    count, rank = int(os.environ.get("WORLD_SIZE", "1")), own_rank()
    own = chosen_device(device, int(os.environ.get("LOCAL_RANK", "0")))
    if count == 1:
        yield Processes(device=own)
        return
    if own.type == "cuda":
        torch.cuda.set_device(own)
    dist.init_process_group("nccl" if own.type == "cuda" else "gloo", timeout=PATIENCE)
    try:
        yield Processes(rank, count, own)
    finally:
        dist.destroy_process_group()


@contextmanager
def _others() -> Iterator[None]:
    """An error of the communication means that another process ended: that is all there is to say."""
    try:
        yield
    except RuntimeError as error:
        raise VisilError("another process of this run has failed: its own message says why") from error


def own_rank() -> int:
    """This process's number among those that torchrun started; alone it is 0."""
    return int(os.environ.get("RANK", "0"))
