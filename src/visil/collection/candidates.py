"""Which videos could match: one vector a frame in FAISS, and a vote over frames.

A short clip inside a long video has few frames in common with it, so a vector for a whole video would never find it.
Every frame of the query, and regions of frames, look for their nearest frames anywhere, and the videos they belong to
collect votes, more for closeness, and once only for each query frame. The FAISS file is a cache: it is made from the
feature files, and made again whenever it is missing, damaged or out of date.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from visil.collection.votes import Candidate, Nearest
from visil.errors import IndexFolderError
from visil.files import delete_unless_in_use

if TYPE_CHECKING:
    import torch

    from visil.collection.catalogue import Video
    from visil.collection.device_votes import DeviceFrames
    from visil.collection.store import Features
    from visil.model.features import VideoFeatures

FLAT_FRAMES = 200_000
"""Up to so many frames the index is exact (8-bit, no training); beyond, it is IVF-PQ."""

FRAME_BITS = 24
"""Low bits of an entry's number: the frame; the others: the video. A video has at most 16 M frames (194 days)."""

LISTS_PROBED = 16
"""Inverted lists that each query frame looks into."""

TRAINING_PER_LIST = 64
"""Frames that a larger index is trained on, for each of its lists."""

NEIGHBOURS = 64
"""Nearest frames that each probe asks for."""

PROBES = 512
"""Vectors that a query looks with, as long as it has no more frames than that."""

PIECE = 512
"""Frames whose regions are averaged at once."""

MOST_ASKED = 1 << 14
"""Frames that a probe looks through for enough whose videos are still there."""


def frame_vectors(video: VideoFeatures) -> NDArray[np.float32]:
    """One unit vector a frame, the mean of its regions; blank frames have no say, and so none."""
    import torch
    from torch.nn.functional import normalize

    # Piece by piece: of a long video all regions at once, in single precision, would take more than anything before.
    means = torch.cat([piece.float().mean(dim=1) for piece in video.vectors.split(PIECE)])
    return normalize(means if video.blank is None else means[~video.blank], dim=1).cpu().numpy()


@dataclass(frozen=True)
class Probes:
    """Vectors that a query looks with, and which of its frames each belongs to."""

    vectors: NDArray[np.float32]
    frames: NDArray[np.int64]

    @classmethod
    def of(cls, video: VideoFeatures, most: int = PROBES) -> Probes:
        """Every frame as a whole, and as many single regions of frames, evenly spread, as ``most`` leaves room for.

        A copy that is a small picture in the query's frame looks like the whole of its original: there a region
        finds what the mean of all regions does not.
        """
        return cls.of_each([video], [most])[0]

    @classmethod
    def of_each(cls, videos: Sequence[VideoFeatures], most: Sequence[int]) -> list[Probes]:
        """:meth:`of` of several videos, all at once: a GPU is waited for twice, and not for each of them."""
        import torch
        from torch.nn.functional import normalize

        from visil.compare.judge import evenly
        from visil.model.features import shown_vectors

        if not videos:
            return []
        shown = [shown_vectors(video) for video in videos]
        regions = shown[0].shape[1]
        count = regions if regions > 1 else 0  # else it is the frame as a whole
        chosen = [
            evenly(len(own) * count, max(0, room - len(own))) for own, room in zip(shown, most, strict=True)
        ]
        means = torch.cat([piece.float().mean(dim=1) for own in shown for piece in own.split(PIECE)])
        parts = [
            own.flatten(0, 1)[torch.from_numpy(places).to(own.device)]
            for own, places in zip(shown, chosen, strict=True)
        ]
        whole = normalize(means, dim=1).cpu().numpy()
        single = normalize(torch.cat(parts).float(), dim=1).cpu().numpy()
        both = (
            np.split(every, np.cumsum([len(own) for own in some])[:-1])
            for every, some in ((whole, shown), (single, chosen))
        )
        return [
            cls(np.concatenate([own, some]), np.concatenate([np.arange(len(own)), places // regions]))
            for own, some, places in zip(*both, chosen, strict=True)
        ]


class CandidateIndex:
    """Frame vectors of a collection, searchable; kept in ``frames.faiss`` and ``frames.json``."""

    def __init__(self, folder: Path, dim: int) -> None:
        self.folder = folder
        self.dim = dim
        self.numbers: set[int] = set()
        """Videos that are in it."""
        self.gone: set[int] = set()
        """Those among them that the collection no longer holds: nobody's neighbours."""
        self.on_disk = False
        """Whether the files hold all frames that are in memory."""
        self._index: Any = None
        self._on_device: tuple[object, DeviceFrames] | None = None

    @property
    def frames(self) -> int:
        """How many frames are in it."""
        return 0 if self._index is None else int(self._index.ntotal)

    # ------------------------------------------------------------------ on disk

    def load(self, *, writable: bool = False) -> bool:
        """Open the files on disk, mapped into memory (or read, to add to it); False where nothing usable is there."""
        import faiss

        try:
            known = json.loads((self.folder / "frames.json").read_text("utf-8"))
            file = self.folder / known["file"]
            index = faiss.read_index(os.fspath(file), 0 if writable else _mapped(known["flat"]))
            if index.d != self.dim or index.ntotal != known["frames"]:
                return False
            self.numbers = set(_spread(known["numbers"]))
            self.begin(index)
            self.on_disk = True
        except (OSError, ValueError, KeyError, TypeError, RuntimeError):
            return False
        return True

    def save(self) -> None:
        """Write both files; a reader meets the old pair or the new one."""
        import faiss

        name = f"frames-{os.urandom(6).hex()}.faiss"
        try:
            faiss.write_index(self._index, os.fspath(self.folder / name))
        except RuntimeError as error:
            (self.folder / name).unlink(missing_ok=True)
            full = "No space" in str(error)
            reason = "the disk is full; what was added before is safe" if full else "cannot be written to"
            raise IndexFolderError(self.folder, reason) from error
        known = {
            "file": name,
            "frames": self.frames,
            "flat": self._is_flat,
            "numbers": _runs(sorted(self.numbers)),
        }
        fresh = self.folder / f".{name}.json"
        fresh.write_text(json.dumps(known), "utf-8")
        os.replace(fresh, self.folder / "frames.json")
        self.on_disk = True
        for old in self.folder.glob("frames-*.faiss"):
            if old.name != name:
                delete_unless_in_use(old)  # readers that have it mapped keep it until they close

    # ------------------------------------------------------------------ building

    def build(self, videos: Sequence[Video], store: Features) -> None:
        """From nothing, of those of ``videos`` that are readable. Each feature file is read once, a small share of
        those of a large collection (more than ``FLAT_FRAMES`` frames) twice: it is trained on them first."""
        frames = sum(video.frames for video in videos)
        self.begin(self._empty(frames, lambda: _sample(videos, store, frames)))
        self.numbers = set()
        self.extend(videos, store)

    def extend(self, videos: Iterable[Video], store: Features) -> None:
        """Some videos more, those of them that are readable."""
        for video, features in store.readable(videos):
            self.add(video.number, frame_vectors(features))

    def add(self, number: int, vectors: NDArray[np.float32]) -> None:
        """One video's frame vectors."""
        if self._index is None:
            self._index = self._empty(0, list)
        ids = (np.int64(number) << FRAME_BITS) + np.arange(len(vectors), dtype=np.int64)
        self._index.add_with_ids(vectors, ids)
        self.numbers.add(number)
        self.on_disk = False

    @property
    def outgrown(self) -> bool:
        """Whether it has become too large for the kind of index that it is."""
        return self._is_flat and self.frames > 2 * FLAT_FRAMES

    @property
    def _is_flat(self) -> bool:
        import faiss

        return isinstance(faiss.downcast_index(self._index), faiss.IndexIDMap2)

    def begin(self, index: Any) -> None:
        """Take over an index of FAISS's: an empty one that is trained, or one that was kept."""
        self._index = index
        if not self._is_flat:
            self._index.nprobe = LISTS_PROBED

    def _empty(self, frames: int, sample: Callable[[], list[NDArray[np.float32]]]) -> Any:
        import faiss

        training = sample() if frames > FLAT_FRAMES else []
        if training:
            return trained_ivf(np.concatenate(training), frames)
        quantizer = faiss.ScalarQuantizer.QT_fp16
        flat = faiss.IndexScalarQuantizer(self.dim, quantizer, faiss.METRIC_INNER_PRODUCT)
        return faiss.IndexIDMap2(flat)

    # ------------------------------------------------------------------ searching

    def vote(
        self,
        queries: Sequence[Probes],
        limit: int,
        *,
        neighbours: int = NEIGHBOURS,
        device: torch.device | None = None,
    ) -> list[list[Candidate]]:
        """For each query the videos whose frames are nearest to its own, strongest first; of equals the first.

        On a GPU (``device``) all frames are looked at, and kept there until the collection changes.
        """
        if device is not None and self.frames:
            from visil.collection.device_votes import DeviceFrames, fits

            if fits(self.frames, self.dim, device):
                version = (self.frames, frozenset(self.gone), device)
                if self._on_device is None or self._on_device[0] != version:
                    held = self._flat() if self._is_flat else self._decoded()
                    self._on_device = version, DeviceFrames(*held, device, exact=self._is_flat)
                return self._on_device[1].vote(queries, limit, neighbours)
        found = self.nearest([probes.vectors for probes in queries], neighbours)
        return [one.strongest(probes.frames, limit) for one, probes in zip(found, queries, strict=True)]

    def nearest(self, queries: Sequence[NDArray[np.float32]], neighbours: int = NEIGHBOURS) -> list[Nearest]:
        """For each query the nearest frames of each of its vectors, of videos that are still there.

        Ties for the last place are all in, so that the answer does not depend on the order in which videos came, nor
        on what was removed (where the index is exact: codes of IVF-PQ tie all the time, and there they are taken as
        they come). All queries look at once.
        """
        ends = np.cumsum([0, *(len(vectors) for vectors in queries)])
        if not self.frames or not ends[-1]:
            return [Nearest.joined(()) for _ in queries]
        vectors = np.concatenate(list(queries))
        found = self._among_all(vectors, neighbours) if self._is_flat else self._in_lists(vectors, neighbours)
        return [found.part(first, stop) for first, stop in pairwise(ends.tolist())]

    def _among_all(self, vectors: NDArray[np.float32], neighbours: int) -> Nearest:
        from visil.collection.exact_neighbours import nearest

        return Nearest.joined(nearest(vectors, *self._flat(), neighbours))

    def _flat(self) -> tuple[NDArray[np.float16], NDArray[np.int64]]:
        """The frames [M, C], where FAISS or the file has them, and their videos; -1 of those that are gone."""
        import faiss

        owner: Any = faiss.downcast_index(self._index)
        flat: Any = faiss.downcast_index(owner.index)
        codes = faiss.rev_swig_ptr(flat.codes.data(), int(flat.codes.size()))
        return codes.view(np.float16).reshape(-1, self.dim), self._videos(faiss.vector_to_array(owner.id_map))

    def _decoded(self) -> tuple[NDArray[np.float16], NDArray[np.int64]]:
        """The same of an index that holds codes: what these stand for."""
        import faiss

        lists: Any = self._index.invlists
        centres = self._index.quantizer.reconstruct_n(0, self._index.nlist)
        frames, entries = np.empty((self.frames, self.dim), np.float16), np.empty(self.frames, np.int64)
        stop = 0
        for number in range(self._index.nlist):
            start, stop = stop, stop + lists.list_size(number)
            if stop > start:
                codes = faiss.rev_swig_ptr(lists.get_codes(number), (stop - start) * lists.code_size)
                frames[start:stop] = self._index.pq.decode(codes.reshape(stop - start, -1)) + centres[number]
                entries[start:stop] = faiss.rev_swig_ptr(lists.get_ids(number), stop - start)
        return frames, self._videos(entries)

    def _videos(self, entries: NDArray[np.int64]) -> NDArray[np.int64]:
        videos = entries >> FRAME_BITS
        videos[np.isin(videos, self._gone())] = -1
        return videos

    def _in_lists(self, vectors: NDArray[np.float32], neighbours: int) -> Nearest:
        rows = np.arange(len(vectors))
        parts: list[Nearest] = []
        asked = min(neighbours, self.frames)
        gone = self._gone()
        while len(rows):
            similarity, entries = self._index.search(vectors[rows], asked)
            videos = entries >> FRAME_BITS
            real = (entries >= 0) & (similarity > 0) & ~np.isin(videos, gone)
            done = (real.sum(axis=1) >= neighbours) | (similarity[:, -1] <= 0) | (entries[:, -1] < 0)
            if asked >= min(MOST_ASKED, self.frames):
                done[:] = True
            chosen = real & done[:, None]
            probes = np.broadcast_to(rows[:, None], chosen.shape)[chosen]
            parts.append(Nearest(probes, similarity[chosen], videos[chosen]))
            rows = rows[~done]
            asked = min(4 * asked, MOST_ASKED, self.frames)
        return Nearest.joined(parts).cut(neighbours)

    def _gone(self) -> NDArray[np.int64]:
        return np.array(sorted(self.gone), np.int64)


def _sample(videos: Sequence[Video], store: Features, frames: int) -> list[NDArray[np.float32]]:
    """Frames to train on, drawn from all over the collection."""
    wanted = lists_for(frames) * TRAINING_PER_LIST
    rng = np.random.default_rng(0)
    parts: list[NDArray[np.float32]] = []
    got = 0
    for _, features in store.readable(videos[i] for i in rng.permutation(len(videos))):
        part = frame_vectors(features)
        parts.append(part[:: max(1, len(part) // 200)])
        got += len(parts[-1])
        if got >= wanted:
            break
    return parts


def lists_for(frames: int) -> int:
    """How many inverted lists suit so many frames: the power of two next to 1.3 roots."""
    return int(2 ** np.clip(np.round(np.log2(1.3 * np.sqrt(max(frames, 1)))), 6, 16))


def trained_ivf(training: NDArray[np.float32], frames: int) -> Any:
    """An empty IVF-PQ index trained on some vectors: whitened, so they need no rotation before they are cut up."""
    import faiss

    dim = training.shape[1]
    lists = min(lists_for(frames), max(1, len(training) // 39))
    # "np": codes in no order of their own, which would take a second or two each and which no search here uses.
    index = faiss.index_factory(dim, f"IVF{lists},PQ{_codes(dim)}np", faiss.METRIC_INNER_PRODUCT)
    index.train(training)
    return index


def _codes(dim: int) -> int:
    return next(n for n in (64, 48, 32, 16, 8, 4, 2, 1) if dim % n == 0)


def _runs(numbers: list[int]) -> list[list[int]]:
    """Rising numbers as [first, last] runs: short even for a million."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return runs


def _spread(runs: list[list[int]]) -> Iterator[int]:
    for first, last in runs:
        yield from range(first, last + 1)


def _mapped(flat: bool) -> int:
    """How FAISS is told to map a file into memory and read only what is looked at; each kind of index has its own."""
    import faiss

    flag = "IO_FLAG_MMAP_IFC" if flat and hasattr(faiss, "IO_FLAG_MMAP_IFC") else "IO_FLAG_MMAP"
    return int(getattr(faiss, flag))
