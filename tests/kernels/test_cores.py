"""Work on as many cores as there are to be."""

from __future__ import annotations

import threading

import torch

from visil.kernels.cores import on_all_cores, using_cores


def test_cores_that_are_asked_for_are_used_whatever_torch_uses() -> None:
    meeting = threading.Barrier(3)

    def meet(_: int) -> None:
        meeting.wait(30)

    before = torch.get_num_threads()
    with using_cores(3):
        on_all_cores(meet, range(3), torch.device("cpu"))
        with using_cores(1):
            names: list[str] = []
            on_all_cores(
                lambda _: names.append(threading.current_thread().name), range(2), torch.device("cpu")
            )
    assert set(names) == {threading.current_thread().name}
    assert torch.get_num_threads() == before
