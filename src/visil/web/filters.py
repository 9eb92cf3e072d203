"""Which hits of a search are wanted, by verdict, confidence, bank, mark and date, and how closely they are seen."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from visil.collection.index import Index
from visil.collection.listing import Listing
from visil.collection.queries import chosen, to_choose_from
from visil.collection.search import Hit
from visil.model.features import VideoFeatures
from visil.web.banks import Banks

CHOOSE_FROM = 200
"""Hits that are looked at where each bank has a threshold of its own."""


@dataclass(frozen=True)
class Filters:
    """The hits that a caller asked for; by default all."""

    verdict: tuple[str, ...] = ()
    min_confidence: float = 0.0
    reference: bool = False
    added_since: float | None = None
    bank: tuple[str, ...] = ()
    refine: bool = False
    """Whether likely ones are looked at closely."""

    @classmethod
    def of(cls, request: dict[str, Any]) -> Self:
        """As an engine is told of them."""
        told = request.get("filters", {})
        lists = {name: tuple(told.get(name) or ()) for name in ("verdict", "bank")}
        return cls(**{**told, **lists})

    def search(
        self,
        index: Index,
        banks: Path,
        features: VideoFeatures,
        k: int,
        *,
        alone: AbstractContextManager[Any],
        closely: Callable[[list[Hit]], list[Hit]],
    ) -> list[Hit]:
        """The best of those that are wanted, as :meth:`visil.Index.search` finds them.

        ``alone`` is held while videos are compared, and no longer: looking ``closely``, which decodes, takes its time.
        """
        with closing(Banks(banks)) as opened:
            least = opened.members(self.bank) if self.bank else None
        many, verdicts = k if least is None else max(k, CHOOSE_FROM), self.verdict or None
        with alone:
            among = self._among(index, least)
            if not len(index) or (among is not None and not among):
                return []
            found: list[Hit] = index.search(features, to_choose_from(many, verdicts), among=among)
        if self.refine:
            found = closely(found)
        wanted = chosen(found, many, self.min_confidence, verdicts)
        return [hit for hit in wanted if least is None or hit.confidence >= least[hit.id]][:k]

    def _among(self, index: Index, members: dict[str, float] | None) -> set[str] | None:
        """Ids of the videos that are looked at; None: all."""
        sets = [] if members is None else [set(members)]
        if self.reference:
            sets.append({video.id for video in index.catalogue.videos() if video.reference})
        if self.added_since is not None:
            with closing(Listing(index.folder)) as listing:
                rows = listing.videos()
                sets.append({video for _, _, _, video, *_, added in rows if added >= self.added_since})
        return set.intersection(*sets) if sets else None
