"""Undoing a plan from its log: files come back to where they were, if nothing else lies there now."""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from visil.collection.apply import Uncertain, move, reason_of
from visil.collection.identity import content_id
from visil.collection.trash import forget_in_trash, in_trash
from visil.errors import UsageError, VisilError, printable

if TYPE_CHECKING:
    from visil.collection.index import Index


@dataclass(frozen=True)
class LoggedStep:
    """A step that was begun, and perhaps done."""

    path: str
    video: str
    keeper: str
    keeper_video: str
    to: str | None = None
    """Where it was moved."""
    fresh: str | None = None
    """What a link was called before it took the file's place."""


@dataclass(frozen=True)
class Log:
    """What was done, the last step first."""

    index: str
    how: str
    steps: list[LoggedStep]


@dataclass(frozen=True)
class Undone:
    """What became of the steps of a log."""

    back: list[str]
    there: list[str]
    """Files that were there already."""
    failed: list[tuple[str, str]]
    """(path, reason)"""
    to_add: list[str]
    """Files that are back, and that the collection no longer knows: to be added again."""


def read_log(path: str | os.PathLike[str]) -> Log:
    """A log of :func:`visil.collection.apply.apply`; a line that was cut off at its end is left out."""
    name = printable(os.fspath(path))
    try:
        lines = Path(path).read_text("utf-8").splitlines()
        head = json.loads(lines[0])
        steps = [_logged(told["begin"]) for told in _objects(lines[1:]) if "begin" in told]
        return Log(str(head["index"]), str(head["how"]), steps[::-1])
    except OSError as error:
        raise UsageError(f"{name}: cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise UsageError(f"{name}: is not the log of `visil apply`") from error


def _objects(lines: list[str]) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(lines, 1):
        try:
            yield json.loads(line)
        except ValueError:
            if number < len(lines):
                raise


def _logged(told: dict[str, Any]) -> LoggedStep:
    return LoggedStep(
        told["path"], told["id"], told["keeper"], told["keeper_id"], told.get("to"), told.get("fresh")
    )


def undo(log: Log, index: Index, *, only_look: bool = False) -> Undone:
    """Bring back the files of a log; ``only_look``: say what would happen, without changing anything."""
    result = Undone([], [], [], [])
    for step in log.steps:
        try:
            if step.fresh is not None and not only_look:
                Path(step.fresh).unlink(missing_ok=True)
            if _is_back(step):
                result.there.append(step.path)
                continue
            source = _source(step, log.how)
            if not only_look:
                _bring_back(step, source)
            result.back.append(step.path)
        except (OSError, VisilError, Uncertain) as error:
            result.failed.append((step.path, reason_of(error)))
    known = [step for step in log.steps if step.path in result.back and index.catalogue.has(step.video)]
    if not only_look and result.back:
        index.hold_files([(step.path, step.video) for step in known])
        index.forget_files({*result.back} - {step.path for step in known})  # what it took a link for
    result.to_add.extend(path for path in result.back if path not in {step.path for step in known})
    return result


def _is_back(step: LoggedStep) -> bool:
    """Whether a file is where it was, and not a link to the one that was kept."""
    if not os.path.exists(step.path) or os.path.islink(step.path):
        return False
    if os.path.exists(step.keeper) and os.path.samefile(step.path, step.keeper):
        return False
    if content_id(Path(step.path)) != step.video:
        raise Uncertain("something else is there now; it is left alone")
    return True


def _source(step: LoggedStep, how: str) -> Path:
    """A file that holds the bytes of one that went."""
    if how == "move":
        candidates = [] if step.to is None else [Path(step.to)]
    elif how in ("hardlink", "symlink") and step.video == step.keeper_video:
        candidates = [Path(step.keeper)]
    else:
        candidates = in_trash(step.path)
    for file in candidates:
        if file.is_file() and content_id(file) == step.video:
            return file
    if how == "trash" and not candidates:
        raise Uncertain("it is not in a trash that can be looked into; bring it back from there by hand")
    raise Uncertain("no file holds its bytes any more")


def _bring_back(step: LoggedStep, source: Path) -> None:
    """Put a file where it was; a link to the one that was kept makes way."""
    target = Path(step.path)
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh = target.with_name(f".visil-{secrets.token_hex(8)}")
    try:
        if os.fspath(source) == step.keeper:
            shutil.copy2(source, fresh)
        else:
            move(os.fspath(source), fresh, step.video)
        if os.path.lexists(target) and not _is_link_to(target, step.keeper):
            raise Uncertain("something else is there now; it is left alone")
        os.replace(fresh, target)
    except BaseException:
        if fresh.exists() and os.fspath(source) != step.keeper:
            move(os.fspath(fresh), source, step.video)
        raise
    finally:
        fresh.unlink(missing_ok=True)
    if source.parent.name == "files":
        forget_in_trash(source)


def _is_link_to(path: Path, keeper: str) -> bool:
    return path.is_symlink() or (os.path.exists(keeper) and os.path.samefile(path, keeper))
