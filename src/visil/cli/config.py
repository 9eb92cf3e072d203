"""``visil config [INDEX]``: which options are set without being typed, and where."""

from __future__ import annotations

import json
import os
from typing import Annotated, Any

import typer

from visil.cli import config_file
from visil.cli.options import AsJson
from visil.cli.output import print_json
from visil.errors import printable


def config(
    context: typer.Context,
    index: Annotated[
        str | None,
        typer.Argument(metavar="INDEX", help="A collection, whose own file counts as well."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Which options files and variables set, for which commands, and where each comes from."""
    root = context.find_root().command
    places = config_file.places(index)
    found = [
        {"command": " ".join(name), "option": key, "value": value, "from": source}
        for name, key, value, source in _holding(index, root)
    ]
    if as_json:
        files = [{"path": os.fspath(place.path), "exists": place.path.is_file()} for place in places]
        print_json({"files": files, "settings": found})
        return
    for place in places:
        there = "" if place.path.is_file() else " (not there)"
        typer.echo(f"{printable(os.fspath(place.path))}{there}")
    having = {key: {" ".join(name) for name in names} for key, names in _having(root).items()}
    together: dict[tuple[str, str, str], set[str]] = {}
    for one in found:
        told = (one["option"], json.dumps(one["value"], ensure_ascii=False), one["from"])
        together.setdefault(told, set()).add(one["command"])
    for (key, value, source), commands in sorted(together.items()):
        all_of_several = len(commands) > 1 and commands == having[key]
        where = "every command that has it" if all_of_several else ", ".join(sorted(commands))
        typer.echo(f"{key} = {printable(value)}  for {where}, from {printable(source)}")
    if not together:
        typer.echo("nothing is set")


def _having(root: Any) -> dict[str, set[config_file.Name]]:
    """Which commands have an option, by its key."""
    having: dict[str, set[config_file.Name]] = {}
    for name, options in config_file.commands(root):
        for key in options:
            having.setdefault(key, set()).add(name)
    return having


def _holding(index: str | None, root: Any) -> list[tuple[config_file.Name, str, Any, str]]:
    """Every option of a command that is set: its value, and the file or variable that it comes from."""
    settings = config_file.settings(index, root)
    held = []
    for name, options in config_file.commands(root):
        for key, option in options.items():
            variable = option.envvar if isinstance(option.envvar, str) else None
            if variable is not None and os.environ.get(variable):
                secret = key in config_file.SECRETS
                held.append((name, key, "…" if secret else os.environ[variable], variable))
            elif key in settings.get(name, {}):
                setting = settings[name][key]
                value = "…" if key in config_file.SECRETS else setting.value
                held.append((name, key, value, os.fspath(setting.place.path)))
    return held
