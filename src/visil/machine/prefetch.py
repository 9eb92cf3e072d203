"""Run an iterator in a thread of its own, or a function in several, a few items ahead: decoding goes on while the
network computes.
"""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

T = TypeVar("T")
Answer = TypeVar("Answer")


def in_order(
    ask: Callable[[T], Answer], source: Iterable[T], threads: int, ahead: int = 1
) -> Iterator[Answer]:
    """Answers in the order of the items, up to ``threads`` asked for at the same time."""
    pool = ThreadPoolExecutor(threads, "visil-ask")
    waiting: deque[Future[Answer]] = deque()
    try:
        for item in source:
            waiting.append(pool.submit(ask, item))
            if len(waiting) >= threads * ahead:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


class _End:
    def __init__(self, error: BaseException | None = None) -> None:
        self.error = error


class prefetched(Generic[T]):
    """Iterate over ``items`` with at most ``ahead`` of them waiting.

    An error in the thread is raised where the items are consumed. Use it as a context manager (or exhaust it), so
    that the thread has ended before whatever ``items`` reads from is closed.
    """

    def __init__(self, items: Iterable[T], ahead: int = 2) -> None:
        self._queue: queue.Queue[T | _End] = queue.Queue(ahead)
        self._stop = threading.Event()
        self._thread = threading.Thread(
            target=self._produce, args=(items,), name="visil-prefetch", daemon=True
        )
        self._thread.start()

    def __enter__(self) -> prefetched[T]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[T]:
        while not self._stop.is_set():
            item = self._queue.get()
            if isinstance(item, _End):
                self._thread.join()
                self._stop.set()  # iterating again yields nothing and does not block
                if item.error is not None:
                    raise item.error
                return
            yield item

    def close(self) -> None:
        """Stop early; returns when the thread has ended."""
        self._stop.set()
        while self._thread.is_alive():
            try:
                self._queue.get(timeout=0.05)  # a producer waiting for room must wake to see the stop
            except queue.Empty:
                continue

    def _produce(self, items: Iterable[T]) -> None:
        end = _End()
        try:
            for item in items:
                self._queue.put(item)
                if self._stop.is_set():
                    return
        except BaseException as error:
            end = _End(error)
        if not self._stop.is_set():
            self._queue.put(end)
