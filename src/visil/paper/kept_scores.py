"""Scores of systems as files, each under a digest of all that they depend on.

Videos that could not be read are kept beside them: whoever reads scores back leaves the same videos out of the truth.
"""

from __future__ import annotations

import json
from pathlib import Path

from visil.errors import FileError
from visil.evaluation.predictions import Predictions, read_predictions, write_predictions
from visil.files import make_folder, replacing
from visil.paper.feature_bank import FeatureBank


class KeptScores:
    """Score files in ``folder``, of videos whose features ``bank`` has or passes on."""

    def __init__(self, folder: Path, bank: FeatureBank) -> None:
        self.folder, self.bank = folder, bank

    def __contains__(self, digest: str) -> bool:
        return self._file(digest).exists()

    def read(self, digest: str) -> Predictions:
        """The scores; what could not be read for them counts as unreadable from now on."""
        self.recall(digest)
        return read_predictions(self._file(digest))

    def recall(self, digest: str) -> None:
        """Know again what could not be read when these scores were made."""
        file = self._unread(digest)
        if not file.exists():
            return
        try:
            unread = json.loads(file.read_text("utf-8")).items()
        except (OSError, ValueError, AttributeError) as error:
            raise FileError(file, "is damaged: delete the folder and run again") from error
        for name, (path, reason) in unread:
            self.bank.left_out(name, path, reason)

    def write(self, digest: str, predictions: Predictions) -> None:
        """Keep scores, and what is known by now of videos that cannot be read."""
        make_folder(self.folder, "the folder of scores")
        evaluated = set(self.bank.ids)
        unread = {name: why for name, why in self.bank.unreadable.items() if name in evaluated}
        if unread:  # first: scores that are there are whole
            with replacing(self._unread(digest)) as fresh:
                fresh.write_text(json.dumps(unread), "utf-8")
        write_predictions(self._file(digest), predictions)

    def _file(self, digest: str) -> Path:
        return self.folder / f"{digest}.json"

    def _unread(self, digest: str) -> Path:
        return self.folder / f"{digest}.unread.json"
