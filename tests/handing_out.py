"""Which process runs which file of tests."""

from __future__ import annotations

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

SHARING = ("collection", "web")
"""Rooms whose tests share what is slow to make: collections, servers, a browser."""


class ByRoom(LoadFileScheduling):  # type: ignore[misc]  # xdist has no types
    """Files in their order; but those of one of these rooms are left to the process that has begun it.

    That one takes them first, others where nothing else is left.
    """

    def __init__(self, config: pytest.Config, log: Producer | None = None) -> None:
        super().__init__(config, log)
        self._homes: dict[str, WorkerController] = {}

    def _assign_work_unit(self, node: WorkerController) -> None:
        file = min(
            self.workqueue, key=lambda file: self._wanted(file, node)
        )  # the first of those wanted most
        room = _room(file)
        if room in SHARING:
            self._homes.setdefault(room, node)
        self.workqueue.move_to_end(file, last=False)
        super()._assign_work_unit(node)

    def _wanted(self, file: str, node: WorkerController) -> int:
        home = self._homes.get(_room(file))
        return 1 if home is None else 0 if home is node else 2


def _room(file: str) -> str:
    return file.removeprefix("tests/").split("/")[0]
