"""Carrying out a plan that someone has reviewed: files that it drops go to the trash, elsewhere, or become links.

Everything is checked before anything is done, and again before each step, by content: the file that is kept must hold
the bytes that it held when it was added, and so must the file that goes. Whatever is uncertain refuses the whole plan.
Each step is written down before and after it is done, so that it can be undone (:mod:`visil.collection.undo`).
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from visil.collection.identity import Stamp, content_id, stamp_of
from visil.collection.presence import look
from visil.collection.remote.objects import is_url
from visil.collection.trash import to_trash
from visil.errors import IndexFolderError, UsageError, VideoError, VisilError, os_reason, printable

if TYPE_CHECKING:
    from visil.collection.index import Index
    from visil.collection.plan_file import PlanRow

How = Literal["trash", "move", "hardlink", "symlink"]
LINKS = ("hardlink", "symlink")
FRESH = ".visil-"
"""What names begin with that files have until they take another's place."""
OnStep = Callable[["Step", int, int], None]
"""Called before each step, with how many are done and how many there are."""


@dataclass(frozen=True)
class Step:
    """One file that goes, and the one that holds its footage."""

    path: str
    video: str
    """Hash of its content."""
    keeper: str
    keeper_video: str
    bytes: int
    begun: str | None = None
    """The link that a run which was killed had made and not yet put in the file's place; the file is in the trash."""

    @property
    def identical(self) -> bool:
        """Whether both have the same bytes."""
        return self.video == self.keeper_video


@dataclass(frozen=True)
class Checked:
    """A plan against the collection and the disk as they are."""

    steps: list[Step]
    done: list[str]
    """Files that the plan drops and that are gone already, or are the links already that it would make."""
    uncertain: list[tuple[str, str]]
    """(path, reason): while there is one, nothing is done."""


def check(index: Index, rows: Sequence[PlanRow], how: How = "trash") -> Checked:
    """What a plan comes to, without changing anything; files are looked at, but read only where they were touched."""
    found = Checked([], [], [])
    said = index.catalogue.verdicts()
    going = {_entry(row.file.path) for row in rows if row.file.action == "drop"}
    kept = {_entry(row.file.path) for row in rows if row.file.action == "keep"}
    seen: set[str] = set()
    for row in rows:
        if row.file.action != "drop":
            continue
        path = os.path.abspath(row.file.path)
        if path in seen:
            continue
        seen.add(path)
        if _entry(path) in kept:
            found.uncertain.append(
                (path, "the plan has it twice, to drop and to keep; leave one of the two rows")
            )
            continue
        if how in LINKS and (begun := _begun(index, row)) is not None:
            found.steps.append(begun)
            continue
        if not os.path.lexists(path) or (how in LINKS and _is_one_with(path, row.file.footage_in)):
            found.done.append(path)
            continue
        try:
            step = _step(index, row, going, how)
            low, high = sorted((step.video, step.keeper_video))
            if said.get((low, high)) == "different":
                raise Uncertain(f"someone judged it different from {printable(step.keeper)} meanwhile")
            found.steps.append(step)
        except Uncertain as reason:
            found.uncertain.append((path, str(reason)))
    return found


class Uncertain(Exception):
    """Why a file must not go."""


def _entry(path: str) -> str:
    """What goes with a path: the entry of a folder; of a link the link, not what it leads to."""
    folder, name = os.path.split(os.path.abspath(path))
    return os.path.join(os.path.realpath(folder), name)


def _is_one_with(path: str, keeper: str | None) -> bool:
    """Whether a name leads to the file that is kept: what an earlier run has linked."""
    if keeper is None or os.path.islink(keeper) or not (os.path.exists(path) and os.path.exists(keeper)):
        return False
    return os.path.samefile(path, keeper)


def _begun(index: Index, row: PlanRow) -> Step | None:
    """What is left of a step that was killed between the trash and the link; None where nothing is."""
    path, keeper = os.path.abspath(row.file.path), row.file.footage_in
    if os.path.lexists(path) or keeper is None or not row.file.video:
        return None
    folder = Path(path).parent
    links = sorted(folder.glob(f"{FRESH}*")) if os.path.exists(keeper) else []
    link = next((link for link in links if link.exists() and os.path.samefile(link, keeper)), None)
    known = index.catalogue.file(os.path.abspath(keeper))
    if link is None or known is None:
        return None
    return Step(path, row.file.video, os.path.abspath(keeper), known[0], row.file.bytes, os.fspath(link))


def _step(index: Index, row: PlanRow, going: set[str], how: How) -> Step:
    path = os.path.abspath(row.file.path)
    if row.file.footage_in is None:
        raise Uncertain("the plan does not say which file holds its footage (footage_in)")
    keeper = os.path.abspath(row.file.footage_in)
    if {_entry(keeper), os.path.realpath(keeper)} & (going - {_entry(path)}):
        raise Uncertain(f"the plan drops {printable(keeper)} as well, which holds its footage")
    video, keeper_video = _known(index, path, "it"), _known(index, keeper, printable(keeper))
    if row.file.video and row.file.video != video:
        raise Uncertain("it holds something else than when the plan was made; make the plan again")
    if os.path.isdir(path):
        raise Uncertain("it is a folder, which may hold other things")
    if any(mark for name, _, mark in index.catalogue.files(video) if name == path):
        raise Uncertain("it was added as a reference")
    if os.path.samefile(path, keeper):
        raise Uncertain(f"it is another name of {printable(keeper)}")
    if how == "hardlink" and os.stat(os.path.dirname(path)).st_dev != os.stat(keeper).st_dev:
        raise Uncertain(f"no hard link leads to {printable(keeper)}, on another disk; --how symlink does")
    return Step(path, video, keeper, keeper_video, os.lstat(path).st_size)


def _known(index: Index, path: str, name: str) -> str:
    """The video that a file holds; it must be there, and hold what it held when it was added."""
    known = index.catalogue.file(path)
    if known is None:
        raise Uncertain(f"{name} is not in the collection; add it, and make the plan again")
    video, stamp = known
    state = look(path, stamp, video).state
    if state == "missing":
        raise Uncertain(f"{name} is not there")
    if state == "changed":
        raise Uncertain(f"{name} has changed since it was added; add it again, and make the plan again")
    return video


@dataclass(frozen=True)
class Applied:
    """What became of a plan."""

    steps: list[Step]
    """That were done."""
    failed: list[tuple[str, str]]
    """(path, reason) of the step that ended it, if one did."""


def apply(
    index: Index,
    checked: Checked,
    log: str | os.PathLike[str],
    *,
    how: How = "trash",
    to: str | os.PathLike[str] | None = None,
    progress: OnStep | None = None,
) -> Applied:
    """Do the steps of a plan; ``log`` is what they are undone from, ``to`` the folder that "move" moves into.

    It ends at the first step that cannot be done: what was done before stays, and is in the log.
    """
    if checked.uncertain:
        path, reason = checked.uncertain[0]
        raise UsageError(f"{printable(path)}: {reason}; nothing was done")
    if (how == "move") != (to is not None):
        raise UsageError("a folder to move files into goes with 'move', and 'move' needs one")
    done: list[Step] = []
    failed: list[tuple[str, str]] = []
    verified = _Verified()
    with UndoLog.begun(log, index.location, how) as book:
        for number, step in enumerate(checked.steps):
            if progress is not None:
                progress(step, number, len(checked.steps))
            try:
                verified.holds(step.keeper, step.keeper_video)
                if step.begun is None:
                    verified.holds(step.path, step.video)
                _do(step, how, None if to is None else Path(to), book)
                done.append(step)
                if not os.path.exists(
                    step.keeper
                ):  # a folder that is mounted twice has one file at two places
                    raise Uncertain(f"{printable(step.keeper)} went with it; undo this, and keep both")
            except (OSError, VisilError, Uncertain) as error:
                failed.append((step.path, reason_of(error)))
                break
    try:
        if how in LINKS:
            index.hold_files([(step.path, step.keeper_video) for step in done])
        elif done:
            index.forget_files(step.path for step in done)
    except IndexFolderError as error:  # what was done is done, and in the log
        failed.append((os.fspath(error.path), f"{error.reason}, so that it still lists what is gone"))
    return Applied(done, failed)


def _do(step: Step, how: How, to: Path | None, book: UndoLog) -> None:
    told: dict[str, Any] = {
        "path": step.path,
        "id": step.video,
        "keeper": step.keeper,
        "keeper_id": step.keeper_video,
    }
    match how:
        case "trash":
            with book.step(told):
                to_trash(step.path)
        case "move":
            assert to is not None
            goal = below(to, step.path)
            with book.step(told | {"to": os.fspath(goal)}):
                move(step.path, goal, step.video)
        case "hardlink" | "symlink":
            fresh = Path(step.begun or _fresh(step.path))
            with book.step(told | {"fresh": os.fspath(fresh)}):
                if step.begun is None:
                    _link(step, how, fresh)
                try:
                    if not (step.identical or step.begun):
                        to_trash(step.path)
                    os.replace(fresh, step.path)
                finally:
                    fresh.unlink(missing_ok=True)


def _fresh(path: str | os.PathLike[str]) -> Path:
    """A name beside a file that nothing has."""
    return Path(path).with_name(f"{FRESH}{secrets.token_hex(8)}")


def _link(step: Step, how: How, fresh: Path) -> None:
    """A link to the file that is kept, under a new name."""
    if how == "hardlink":
        os.link(os.path.realpath(step.keeper), fresh)
    else:
        os.symlink(step.keeper, fresh)


def below(folder: Path, path: str) -> Path:
    """Where a file goes in a folder: under all of its own path, so that no two meet."""
    drive, rest = os.path.splitdrive(os.path.abspath(path))
    return Path(os.path.abspath(folder), *filter(None, [drive.strip("\\/:")]), rest.lstrip("\\/"))


def move(path: str, goal: Path, video: str) -> None:
    """Move a file to where nothing is; to another disk it is copied, compared, and only then deleted."""
    if os.path.lexists(goal):
        raise Uncertain(f"there is something at {printable(os.fspath(goal))} already")
    goal.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.rename(path, goal)
    except OSError:
        fresh = _fresh(goal)
        try:
            shutil.copy2(path, fresh)
            if content_id(fresh) != video:
                raise Uncertain("its copy is not what was read from it") from None
            os.rename(fresh, goal)
        finally:
            fresh.unlink(missing_ok=True)
        os.unlink(path)


class _Verified:
    """Files that were read and hold what they should; read again where anything about them has changed since."""

    def __init__(self) -> None:
        self._read: dict[str, tuple[tuple[Stamp, int, int, int], str]] = {}

    def holds(self, path: str, video: str) -> None:
        status = os.stat(path)
        # Size and time of change may be made up; a program cannot choose the others.
        seen = (stamp_of(Path(path)), status.st_dev, status.st_ino, status.st_ctime_ns)
        known = self._read.get(path)
        if known is None or known[0] != seen or os.path.isdir(path):
            known = self._read[path] = (seen, content_id(Path(path)))
        if known[1] != video:
            raise Uncertain(f"{printable(path)} does not hold what it held when it was added")


class UndoLog:
    """Steps as lines of JSON, each on disk before it is done and again after."""

    def __init__(self, file: FileIO) -> None:
        self._file = file

    @classmethod
    @contextmanager
    def begun(cls, path: str | os.PathLike[str], location: str, how: How) -> Iterator[Self]:
        """A new log; there must be no file of its name."""
        where = location if is_url(location) else os.path.abspath(location)
        try:
            file = Path(path).open("xb", buffering=0)  # noqa: SIM115
        except OSError as error:
            raise _unwritable(path, error) from error
        with file:
            book = cls(file)
            try:
                book.write({"visil": "apply", "index": where, "how": how, "at": time.time()})
            except OSError as error:
                Path(path).unlink(missing_ok=True)  # nothing was done
                raise _unwritable(path, error) from error
            yield book

    @contextmanager
    def step(self, told: dict[str, Any]) -> Iterator[None]:
        """A step that is done within the block."""
        self.write({"begin": told})
        try:
            yield
        except BaseException:
            self.write({"failed": told["path"]})
            raise
        self.write({"done": told["path"]})

    def write(self, line: dict[str, Any]) -> None:
        """A line that is on disk when this returns."""
        rest = (json.dumps(line) + "\n").encode()
        while rest:
            rest = rest[self._file.write(rest) :]
        os.fsync(self._file.fileno())


def _unwritable(path: str | os.PathLike[str], error: OSError) -> UsageError:
    return UsageError(f"{printable(os.fspath(path))}: cannot be written: {os_reason(error)}")


def reason_of(error: Exception) -> str:
    """What was in the way of a step, in words."""
    if isinstance(error, VideoError):
        return error.reason
    return os_reason(error) if isinstance(error, OSError) else str(error)
