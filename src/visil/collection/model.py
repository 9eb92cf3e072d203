"""The model that a collection was made with, and no other."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from visil.errors import ModelError

if TYPE_CHECKING:
    from visil.compare.visil import ViSiL


class FactStore(Protocol):
    """Where a collection records what it was made with: a catalogue."""

    def fact(self, key: str) -> str | None:
        """A recorded fact; None where there is none."""

    def set_fact(self, key: str, value: str) -> None:
        """Record something."""


class CollectionModel:
    """Loads the model when it is first needed: the one that is ``wanted``, or the one that the collection names.

    The first model is recorded where the collection is ``writable``; any other one is refused.
    """

    def __init__(
        self, wanted: ViSiL | str | None, location: str, facts: FactStore, writable: Callable[[], bool]
    ) -> None:
        self._wanted = wanted
        self._location = location
        self._facts = facts
        self._writable = writable
        self._model: ViSiL | None = None
        self.ready: ViSiL | None = None
        """The one that is wanted by name, where it was loaded beforehand."""

    @property
    def loaded(self) -> ViSiL | None:
        """The model, where it is loaded."""
        return self._model

    def use(self, model: ViSiL) -> None:
        """Take a model that this process has loaded already; it is checked when needed."""
        self._wanted, self._model = model, None

    def get(self) -> ViSiL:
        """The model."""
        if self._model is None:
            self._model = self._checked()
        return self._model

    def _checked(self) -> ViSiL:
        from visil.compare.visil import ViSiL
        from visil.kernels.precision import of_collections

        wanted, known = self._wanted, self._facts.fact("model")
        named = wanted if isinstance(wanted, str) else self._facts.fact("model_source")
        if isinstance(wanted, ViSiL):
            model = wanted
        else:
            model = self.ready or load(named)
            model.embedding = of_collections(model.config.backbone)
        fingerprint = model.fingerprint()
        if known is None:
            if self._writable():
                self._facts.set_fact("fingerprint", fingerprint)
                if isinstance(wanted, str):
                    self._facts.set_fact("model_source", wanted)
                self._facts.set_fact("model", model.config.name)
        elif self._facts.fact("fingerprint") != fingerprint:
            raise ModelError(
                f"{self._location}: was made with the model {known}, and {model.config.name} gives other features: "
                "open it with that model, or make a new collection"
            )
        return model


def load(name: str | None) -> ViSiL:
    """:func:`visil.load`, imported when a model is first needed."""
    from visil.compare.loading import load as loaded

    return loaded(name)
