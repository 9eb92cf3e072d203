"""``visil.toml``: options that need not be typed again, beside a collection or in the user's own folder.

A key is an option without its dashes, ``min-duration``; at the top of the file it is for every command that has the
option, below ``[add]`` or ``[models.export]`` for that one. The command line comes first, then variables, then the file
beside the collection, then the user's.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import typer

from visil.errors import UsageError, os_reason, printable

FILE = "visil.toml"
VARIABLE = "VISIL_CONFIG"

REACHING_OUT = frozenset(("at", "host", "ray", "token", "token-file"))
"""Options by which a run would join other machines, or let them in: a file that came with a collection may set none."""

DECISIONS = frozenset(("gone-folders", "prune", "undo", "yes"))
"""Options by which files go, or are forgotten: nor may it set these."""

SECRETS = frozenset(("token",))
"""Options whose values are shown and logged nowhere."""

Name = tuple[str, ...]
"""The words that call a command."""
Options = dict[str, Any]
"""Of a command, by key: Typer's parameters."""


@dataclass(frozen=True)
class Place:
    """Where a file is looked for."""

    path: Path
    own: bool
    """Whether it is the user's; else it lies beside a collection, and may have come with it."""


@dataclass(frozen=True)
class Setting:
    """A file's value for an option of a command."""

    value: Any
    place: Place
    key: str
    """As it is called in the file."""

    def typed(self) -> Any:
        """The value as the command line would give it."""
        if isinstance(self.value, list):
            return [str(one) for one in self.value]
        return self.value if isinstance(self.value, bool) else str(self.value)


def places(index: str | None) -> list[Place]:
    """Files that may say something about a command on this collection, the one that comes first first."""
    from visil.collection.remote.objects import is_url

    chosen = os.environ.get(VARIABLE)
    if chosen == "":
        return []
    found = []
    if index is not None and not is_url(index):
        found.append(Place(Path(os.path.abspath(index)).parent / FILE, own=False))
    found.append(Place(Path(chosen or os.path.join(typer.get_app_dir("visil"), FILE)), own=True))
    if chosen and not found[-1].path.is_file():
        raise UsageError(f"{printable(chosen)}: no such file, which {VARIABLE} names")
    return found


def settings(index: str | None, root: Any) -> dict[Name, dict[str, Setting]]:
    """All that the files say, for each command below ``root`` and by key; every key in them is checked."""
    known: dict[Name, Options] = {}
    found: dict[Name, dict[str, Setting]] = {}
    for place in places(index):
        table = _read(place.path)
        if not table:
            continue
        known = known or dict(commands(root))
        for name, key, setting in _settings(place, table, known):
            found.setdefault(name, {}).setdefault(key, setting)
    return found


def _read(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text("utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, ValueError) as error:
        reason = os_reason(error) if isinstance(error, OSError) else "it is not UTF-8"
        raise UsageError(f"{printable(str(path))}: cannot be read: {reason}") from error
    import tomllib

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{printable(str(path))}: is no TOML: {error}") from error


def commands(command: Any, name: Name = ()) -> Iterator[tuple[Name, Options]]:
    """Every command below one, and its options by key."""
    below = getattr(command, "commands", None)
    if below is None:
        options = (one for one in command.params if one.param_type_name == "option" and one.name != "help")
        yield name, {key_of(one): one for one in options}
        return
    for word, inner in below.items():
        yield from commands(inner, (*name, word))


def key_of(option: Any) -> str:
    """The name of an option in a file: ``--min-duration`` is min-duration, ``-k`` is k."""
    names = [str(name) for name in option.opts]
    return next((name for name in names if name.startswith("--")), names[0]).lstrip("-")


def _settings(
    place: Place, table: Mapping[str, Any], known: dict[Name, Options], name: Name = ()
) -> Iterator[tuple[Name, str, Setting]]:
    """The values of one table; those in a command's own come before those for all of them."""
    below = {
        command[: len(name) + 1] for command in known if command[: len(name)] == name and command != name
    }
    for key, value in table.items():
        if isinstance(value, dict):
            if (*name, key) not in below:
                raise _unknown(place, (*name, key), {one[-1] for one in below}, "command")
            yield from _settings(place, value, known, (*name, key))
    meant = {command: options for command, options in known.items() if command[: len(name)] == name}
    for key, value in table.items():
        if not isinstance(value, dict):
            having = {command: options[key] for command, options in meant.items() if key in options}
            if not having:
                raise _unknown(
                    place, (*name, key), {one for options in meant.values() for one in options}, "option"
                )
            for command, option in having.items():
                yield (
                    command,
                    key,
                    Setting(_value(place, (*name, key), option, value), place, ".".join((*name, key))),
                )


def _unknown(place: Place, key: Name, known: set[str], what: str) -> UsageError:
    near = get_close_matches(key[-1].replace("_", "-"), known, n=1)
    hint = f"; {near[0]} is one" if near else ""
    if (turned_off := key[-1].removeprefix("no-")) in known:
        hint = f"; write {turned_off} = false"
    return _wrong(place, ".".join(key), f"there is no such {what}{hint}")


def _wrong(place: Place, key: str, reason: str) -> UsageError:
    return UsageError(f"{printable(str(place.path))}: {printable(key)}: {reason}")


def _value(place: Place, name: Name, option: Any, value: Any) -> Any:
    """A value of the file, if the option takes such ones."""
    key = ".".join(name)
    if not place.own and key_of(option) in REACHING_OUT | DECISIONS:
        raise _wrong(place, key, "only your own file, or the command line, may set this")
    if option.is_flag:
        if not isinstance(value, bool):
            raise _wrong(place, key, "must be true or false")
        return value
    values = value if isinstance(value, list) and option.multiple else [value]
    if any(isinstance(one, bool) or not isinstance(one, str | int | float) for one in values):
        raise _wrong(
            place, key, "must be text or a number" + (", or a list of them" if option.multiple else "")
        )
    if _names_files(option):
        values = [_path(place, key, str(one)) for one in values]
    return values if option.multiple else values[0]


def _names_files(option: Any) -> bool:
    """Whether an option takes paths; Typer and Click keep an option's type in different places."""
    described = getattr(option, "type_descriptor", None)
    return "Path" in str(described.annotation if described is not None else option.type)


def _path(place: Place, key: str, text: str) -> str:
    """A path in a file begins where the file lies; beside a collection it may not lead out of that folder."""
    folder = place.path.parent
    path = os.path.join(folder, os.path.expanduser(text) if place.own else text)
    if not place.own and not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder)):
        raise _wrong(place, key, "leads out of its folder, which only your own file may do")
    return path
