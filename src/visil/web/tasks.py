"""The tasks of an engine: search, compare, find duplicates, add, export, show attention."""

from __future__ import annotations

import json
import os
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from visil.cluster.ray_connection import opened_for_serving
from visil.collection.discover import LEAVES, discover
from visil.collection.duplicates import Group
from visil.collection.identity import stamp_of
from visil.collection.intake import AddProgress
from visil.collection.queries import closely, file_of
from visil.collection.search import Hit, shown_anew
from visil.collection.selection import Selection
from visil.compare.judge import Judged, Pair, answer, identical, same_files
from visil.compare.matches import measured
from visil.compare.refinement import looked_at
from visil.compare.repeats import Repeats
from visil.compare.visil import ViSiL
from visil.errors import UsageError, VideoError, VisilError, printable
from visil.footage.proof import Prover
from visil.matching.localize import Segment
from visil.matching.match import Match
from visil.model.features import VideoFeatures
from visil.video import Sampling
from visil.web import evidence
from visil.web.banks import FILE as BANKS
from visil.web.banks import Banks
from visil.web.comparison import (
    attention_picture,
    how_it_came_about,
    in_words,
    keep_comparison,
    same_moment,
    same_moments,
)
from visil.web.decisions import read_decisions
from visil.web.engine import Teller
from visil.web.export import OnceFailed, export_html
from visil.web.filters import Filters
from visil.web.roots import Roots
from visil.web.sandbox import Decoder, Decoders, Image
from visil.web.settings import MIB, Limits

KEPT_FEATURES = 256 * MIB
"""Bytes of features kept of files searched for lately, so that comparing one with a hit does not decode it again."""
MOST_MOMENTS = 200
"""Hits that the same moment is looked for of, the best: as many as the page shows."""


class Tasks:
    """A collection with its model, and the features of files searched for lately.

    Threads may share it: one embeds a file while another searches.
    """

    def __init__(self, folder: Path, state: Path, limits: dict[str, Any], threads: int = 1) -> None:
        torch.set_num_threads(threads)
        self.threads = threads
        self.state = state
        self.limits = Limits(**limits)
        self.index = opened_for_serving(folder)
        self._queries: OrderedDict[tuple[object, ...], VideoFeatures] = OrderedDict()
        self._loading, self._keeping, self._exact = (threading.Lock() for _ in range(3))
        self._files = [threading.Lock() for _ in range(64)]

    @property
    def model(self) -> ViSiL:
        """The collection's own."""
        with self._loading:
            return self.index.model

    def do(self, request: dict[str, Any], tell: Teller) -> dict[str, Any]:
        """Carry out a request of the server's; large results go to a file and are named here."""
        match request["do"]:
            case "search":
                return self.search(request["query"], int(request["k"]), Filters.of(request), tell)
            case "batch":
                return self.batch(request["queries"], int(request["k"]), Filters.of(request), tell)
            case "compare":
                refine = request.get("refine", True)
                return self.compare(request["query"], request["target"], request["comparison"], tell, refine)
            case "duplicates":
                return self.duplicates(float(request["min_confidence"]), tell)
            case "add":
                paths = request.get("paths") or [request["path"]]
                return self.add(paths, [Path(root) for root in request["roots"]], tell)
            case "export":
                decided = read_decisions(self.state / "review.sqlite")
                with Decoder(self.limits) as decoder:
                    result, file = Path(request["result"]), Path(request["file"])
                    export_html(self.index, result, file, decided, OnceFailed(decoder.frames_at))
                return {}
            case "attention":
                return self.attention(request)
            case "report":
                return self.report(request, tell)
            case "stretches":
                evidence.stretches(self.limits, request)
                return {}
            case "small_copy":
                evidence.small_copy(self.limits, Path(request["path"]), Path(request["file"]))
                return {}
            case other:
                raise UsageError(f"an engine cannot {other}")

    # ------------------------------------------------------------------ search and compare

    def search(self, query: dict[str, Any], k: int, wanted: Filters, tell: Teller) -> dict[str, Any]:
        """Search the collection for a query, hits by id; a video is not a hit of itself."""
        features = self.features(query, tell)
        own = query["id"] if query["kind"] == "video" else None
        tell(0, None, "videos")
        assert self.model is not None  # loaded here, not by two threads at once
        hits = wanted.search(
            *(self.index, self.state / BANKS, features, k + (own is not None)),
            alone=self._exact,
            closely=lambda found: self._closely(features, own, found, tell),
        )
        with self._exact:
            moments = [self._moment(features, hit) for hit in hits[:MOST_MOMENTS]]
        with closing(Banks(self.state / BANKS)) as banks:
            told = [
                {
                    **_without_path(hit.to_dict()),
                    "in_words": in_words(hit.segments),
                    "moment": moment,
                    "references": banks.known_as(hit.id),
                }
                for hit, moment in zip_longest(hits, moments)
                if hit.id != own
            ]
        return {"query": query_facts(query, features), "hits": told[:k], "refined": wanted.refine}

    def _closely(self, features: VideoFeatures, own: str | None, hits: list[Hit], tell: Teller) -> list[Hit]:
        """Hits as more frames a second show them, which another process decodes, as it does all others."""
        if own is not None:
            features = replace(features, path=file_of(self.index.catalogue, own))

        def told() -> Iterator[Hit]:
            for done, hit in enumerate(hits):
                tell(done, len(hits), "videos")
                yield hit

        with Decoder(self.limits) as decoder, tell.ending(decoder.kill):
            found = closely(self.index.parts, features, told(), OnceFailed(decoder.samples_at))
        tell(len(hits), len(hits), "videos")  # or the last one was stopped, and is as it was
        return found

    def _moment(self, features: VideoFeatures, hit: Hit) -> list[float] | None:
        """The same moment of a query and of a hit; none where the hit's features cannot be read."""
        try:
            found = self.index.store.read(hit.id, path=hit.path)
        except VisilError:
            return None
        return same_moment(self.model, features, found, hit.segments)

    def batch(self, queries: list[dict[str, Any]], k: int, wanted: Filters, tell: Teller) -> dict[str, Any]:
        """A search for each of some queries; an error in one is its answer, and the others go on."""
        results: list[dict[str, Any]] = []
        for done, query in enumerate(queries):
            tell(done, len(queries), "videos")
            named = {name: query[name] for name in ("kind", "id", "name")}
            if "error" in query:  # it could not be found in the first place
                results.append({"query": named, "error": query["error"]})
                continue
            try:
                results.append(self.search(query, k, wanted, tell.silent()))
            except VisilError as error:
                if tell.cancelled:
                    raise
                results.append({"query": named, "error": str(error)})
        tell(len(queries), len(queries), "videos")
        return {"results": results}

    def compare(
        self,
        query: dict[str, Any],
        target: dict[str, Any],
        comparison: str,
        tell: Teller,
        refine: bool = True,
    ) -> dict[str, Any]:
        """How two videos relate; the matrices are written into a folder of the comparison."""
        first, second = self.features(query, tell), self.features(target, tell)
        tell(0, None, "videos")
        model, folder, refs = self.model, self.state / "comparisons" / comparison, [query, target]
        with self._exact:
            pair, found, common = self._pair(first, second)
        rough, seen = answer(pair, found), None
        if same_files(first, second):
            match = identical(rough, first, second)
        else:
            seen = self._pair_closely(pair, found, rough.segments, refs, tell) if refine else None
            match = rough if seen is None else answer(pair, seen)
        closely = [segment for segment in match.segments if segment not in rough.segments]
        with self._exact:
            matrices = keep_comparison(model, folder, match, (first, second), refs, closely)
        told = {
            "comparison": comparison,
            "query": query_facts(query, first),
            "target": query_facts(target, second),
            **_measured(match),
            "in_words": in_words(match.segments),
            "refined": seen is not None,
            "how": how_it_came_about(model.config, match, common, refined=seen is not None),
            **matrices,
            "attention": model.attention is not None,
        }
        (folder / "result.json").write_text(json.dumps(told), "utf-8")
        return told

    def _pair(
        self, first: VideoFeatures, second: VideoFeatures
    ) -> tuple[Pair, list[Judged], NDArray[np.float32] | None]:
        """The evidence about a pair, and how common each frame of its query is here, for a model that asks."""
        model = self.model
        common = None if model.reader is not None else self.index.common_here().beyond_typical(first)
        return *measured(model, model.scorer(), first, second, common=common), common

    def _pair_closely(
        self, pair: Pair, found: list[Judged], shown: list[Segment], refs: list[dict[str, Any]], tell: Teller
    ) -> list[Judged] | None:
        """Stretches as more frames a second show them; None where there are none, or a file cannot be read."""
        query, target = (
            replace(video, path=file_of(self.index.catalogue, ref["id"])) if ref["kind"] == "video" else video
            for video, ref in zip((pair.query, pair.target), refs, strict=True)
        )
        done = 0

        def decode(path: str | os.PathLike[str], times: Sequence[float], sampling: Sampling) -> list[Image]:
            nonlocal done
            tell(done, None, "frames")
            done += len(times)
            return decoder.samples_at(path, times, sampling)

        with Decoder(self.limits) as decoder, tell.ending(decoder.kill):
            try:
                anew = shown_anew(self.model, target, shown, decode)
                if anew is not target:  # of whose key frames some stood for several seconds
                    with self._exact:
                        pair, found, _ = self._pair(query, anew)
                pair = replace(pair, query=query, target=anew)
                looks = [self.model.look(video, decode) for video in (query, anew)]
                seen = looked_at(pair, found, looks)
            except VideoError:
                seen = None
        tell(done, None, "frames")  # or it was stopped, which is no fault of the file
        return seen

    def report(self, request: dict[str, Any], tell: Teller) -> dict[str, Any]:
        """One match as an HTML file."""
        first, second = (self.features(ref, tell) for ref in request["refs"])
        evidence.report(self.limits, self.model, (first, second), request)
        return {}

    def features(self, query: dict[str, Any], tell: Teller) -> VideoFeatures:
        """Features of a video: the stored ones where the collection has it, else of its decoded frames."""
        if query["kind"] == "video":
            video = self.index.video(query["id"])
            return self.index.store.read(video.id, path=video.path)
        path = Path(query["path"])
        stamp = stamp_of(path)
        known = self.index.catalogue.file(os.fspath(path))
        if known is not None and known[1] == stamp:
            return self.index.store.read(known[0], path=os.fspath(path))
        key = (os.fspath(path), stamp.size, stamp.modified_ns)
        with self._files[hash(key) % len(self._files)]:  # who comes second finds what the first has made
            found = self._queries.get(key)
            if found is None:
                found = self.embed(path, query["name"], tell)
        with self._keeping:
            self._queries[key] = found
            self._queries.move_to_end(key)
            while len(self._queries) > 1 and sum(map(_bytes_of, self._queries.values())) > KEPT_FEATURES:
                self._queries.popitem(last=False)
        return found

    def embed(self, path: Path, name: str, tell: Teller) -> VideoFeatures:
        """As :meth:`visil.ViSiL.embed`, but decoded in another process, and refused where it is too long."""
        parts: list[VideoFeatures] = []
        repeats, done = Repeats(), 0
        try:
            sampling, seconds = self.model.config.sampling, self.limits.decode_query_s
            with (
                Decoder(self.limits) as decoder,
                tell.ending(decoder.kill),
                decoder.stream(path, sampling, seconds) as stream,
            ):
                self.limits.check_length(name, stream.info.duration)
                expected = round((stream.info.duration or 0.0) * sampling.fps)
                for frames in stream:  # a file may be longer than it says
                    self.limits.check_length(name, max(stream.duration, frames.timestamps[-1]))
                    done += len(frames)
                    part = self.model.embed_frames(frames, repeats=repeats)
                    parts.append(replace(part, vectors=part.vectors.half()))
                    tell(done, max(done, expected) if expected else None, "frames")
        except VideoError as error:
            raise VideoError(name, error.reason) from error  # not the path that an upload has here
        if not parts:
            raise VideoError(name, "no frame could be decoded")
        return VideoFeatures.joined(parts, stream.duration, os.fspath(path))

    # ------------------------------------------------------------------ long work

    def duplicates(self, min_confidence: float, tell: Teller) -> dict[str, Any]:
        """Groups of videos that share footage, by id, with why each is worth keeping or not."""
        with (
            Decoders(self.limits) as decoders,
            Decoder(self.limits) as pictures,
            tell.ending(decoders.kill),
        ):
            found = self.index.find_duplicates(
                min_confidence,
                progress=lambda done, total, _: tell(done, total, "videos"),
                prove=Prover(decoders.stream, pictures.frames_at, pictures.sound),
                proving=lambda done, total: tell(done, total, "videos"),
            )
        lines = [line for group in found.groups for line in self._lines(group, tell)]
        return {**found.to_dict(), "min_confidence": min_confidence, "lines": lines}

    def _lines(self, group: Group, tell: Teller) -> Iterator[dict[str, Any]]:
        """The lines along which the others run with the video to keep, so that the same moments can be shown of all."""
        for pair in group.pairs:
            if tell.cancelled:
                raise KeyboardInterrupt
            if pair.query == pair.target or group.keep not in (pair.query, pair.target):
                continue
            try:
                query, target = (self.index.store.read(video) for video in (pair.query, pair.target))
            except VisilError:
                continue
            line = same_moments(self.model, query, target, pair.segments)
            if line is not None:
                yield {"videos": [pair.query, pair.target], **line}

    def add(self, paths: list[str], roots: list[Path], tell: Teller) -> dict[str, Any]:
        """Add files and folders; files that links lead to outside the roots are left out."""
        outside: list[Path] = []

        def passed_over(file: Path, reason: str) -> None:
            if reason == LEAVES:
                outside.append(file)

        found = list(discover(paths, Selection(), within=roots, passed_over=passed_over))
        files = Roots(roots).inside(found)
        if not files:
            raise UsageError(f"{printable(paths[0])}: holds no video that this server may read")
        tell.pending([os.fspath(file) for file in files])

        def progress(state: AddProgress) -> None:
            tell(state.files, state.total, "files", finished=state.path)

        with Decoders(self.limits) as decoders, tell.ending(decoders.kill):
            report = self.index.add(files, workers=self.threads, progress=progress, decode=decoders.stream)
        return {
            "added": report.added,
            "unchanged": report.unchanged,
            "failed": [{"path": printable(file), "reason": reason} for file, reason in report.failed],
            "outside": len(outside) + len(found) - len(files),
        }

    # ------------------------------------------------------------------ attention

    def attention(self, request: dict[str, Any]) -> dict[str, Any]:
        """Attention in one frame, drawn over it, into a file."""
        folder = self.state / "comparisons" / request["comparison"]
        meta = json.loads((folder / "meta.json").read_text("utf-8"))
        times = meta[f"{request['side']}_times"]
        if not 0 <= request["frame"] < len(times):
            raise UsageError(f"there are frames 0 to {len(times) - 1}")
        with Decoder(self.limits) as decoder:
            (shot,) = decoder.frames_at(request["path"], [times[request["frame"]]], 288)
        attention_picture(self.model, shot, Path(request["file"]))
        return {}


def query_facts(query: dict[str, Any], features: VideoFeatures) -> dict[str, Any]:
    """The facts about a query, for a result."""
    duration = features.duration if features.duration is not None else float(features.ends[-1])
    return {"kind": query["kind"], "id": query["id"], "name": query["name"], "duration": duration}


def _measured(match: Match) -> dict[str, Any]:
    return {
        "score": match.score,
        "confidence": match.confidence,
        "verdict": match.verdict,
        "note": match.note,
    }


def _without_path(hit: dict[str, object]) -> dict[str, object]:
    return {key: value for key, value in hit.items() if key != "path"}


def _bytes_of(features: VideoFeatures) -> int:
    return features.vectors.numel() * features.vectors.element_size()
