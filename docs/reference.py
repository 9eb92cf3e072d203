"""The pages of the site that are made from the code: every public name, and every command with its options.

A hook of MkDocs (``mkdocs.yml``). Links that leave ``docs/`` for other files of the repository become plain text, since
the site holds only ``docs/``; one that leads nowhere is an error.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
OUTWARD = re.compile(r"(?<!!)\[([^\]]*)\]\((\.\./[^)#\s]+)(#[^)\s]*)?\)")


def on_files(files: Any, config: Any) -> Any:
    """Called by MkDocs: the made pages join those that were found."""
    from mkdocs.structure.files import File

    for name, content in {"api.md": api_page(), "commands.md": commands_page()}.items():
        files.append(File.generated(config, name, content=content))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Called by MkDocs: what a page links to outside of ``docs/`` is named instead."""

    def named(link: re.Match[str]) -> str:
        text, target = link[1], link[2]
        if not (ROOT / "docs" / target).exists():
            raise ValueError(f"{page.file.src_uri}: {target} is not there")
        path = target.removeprefix("../")
        return text if path in text else f"{text} (`{path}`)"

    return OUTWARD.sub(named, markdown)


def api_page() -> str:
    """Every public name, in mkdocstrings' notation."""
    import visil

    errors: list[str] = []
    things: list[str] = []
    for name in visil.__all__:
        value = getattr(visil, name)
        is_error = inspect.isclass(value) and issubclass(value, Exception)
        (errors if is_error else things).append(f"::: {value.__module__}.{name}\n")
    intro = "# Python\n\nEverything public, as `visil.NAME`. Imports of other modules may break with any version.\n"
    return "\n".join([intro, *things, *errors])


def commands_page() -> str:
    """Every command and its options, as ``visil COMMAND --help`` tells them."""
    from typer.main import get_command

    from visil.cli.app import app

    parts = [
        "# Commands\n\nEvery command and option, made from the code: `visil COMMAND --help` says the same.\n"
    ]
    for names, command in commands(get_command(app)):
        arguments = [_usage(p) for p in command.params if p.param_type_name == "argument"]
        parts.append(f"## visil {' '.join(names)}\n")
        parts.append(f"```\nvisil {' '.join([*names, '[OPTIONS]', *arguments])}\n```\n")
        parts.append(inspect.cleandoc(command.help or "") + "\n")
        rows = [_row(parameter) for parameter in command.params if parameter.name != "help"]
        if rows:
            parts.append(
                "\n".join(["| argument or option | meaning | default |", "|---|---|---|", *rows]) + "\n"
            )
    return "\n".join(parts)


def commands(command: Any, names: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command below one, with the words that call it."""
    below = getattr(command, "commands", None)
    if below is None:
        yield names, command
        return
    for name, inner in below.items():
        yield from commands(inner, (*names, name))


def _usage(argument: Any) -> str:
    name = argument.metavar or str(argument.name).upper()
    name = f"{name}..." if argument.nargs != 1 and not name.endswith("...") else name
    return name if argument.required else f"[{name}]"


def _row(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        name = f"`{_usage(parameter)}`"
    else:
        name = ", ".join(f"`{option}`" for option in [*parameter.opts, *parameter.secondary_opts])
        if not parameter.is_flag:
            name += f" `{parameter.metavar or _kind(parameter)}`"
    text = " ".join((parameter.help or "").split())
    variable = getattr(parameter, "envvar", None)
    text += f" Also `{variable}`." if variable else ""
    default = parameter.default
    shown = (
        ""
        if default in (None, False, (), []) or callable(default)
        else f"`{getattr(default, 'value', default)}`"
    )
    cells = [name, text, "required" if parameter.required else shown]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _kind(option: Any) -> str:
    """What an option takes: its choices, or its type's name; Typer and Click keep it in different places."""
    described = getattr(option, "type_descriptor", None)
    kind = described.annotation if described is not None else option.type
    if inspect.isclass(kind) and issubclass(kind, Enum):
        return "|".join(str(choice.value) for choice in kind)
    return str(getattr(kind, "__name__", None) or getattr(kind, "name", "value")).upper()
