"""A family of commands, each with the options that every command has."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import typer
from typer.core import TyperCommand

from visil.cli import config_file, verbosity
from visil.errors import UsageError, printable

Function = TypeVar("Function", bound=Callable[..., None])


class Command(TyperCommand):
    """One whose options may also be set in files; every flag has a form ``--no-…``, which beats them."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the files, once it is known which collection is meant, then the command line."""
        given: dict[str, Any] = {}
        found: dict[str, config_file.Setting] = {}
        if not ctx.resilient_parsing:
            given, _, _ = self.make_parser(ctx).parse_args(args=list(args))
            kinds = {one.name: one.param_type_name for one in self.params}
            index = given.get("index") if kinds.get("index") == "argument" else None
            here = config_file.settings(index, ctx.find_root().command).get(_words(ctx), {})
            keys = {str(one.name): config_file.key_of(one) for one in self.params}
            found = {name: here[key] for name, key in keys.items() if key in here}
            for typed, other in (("quiet", "verbose"), ("verbose", "quiet")):
                if given.get(typed):
                    found.pop(other, None)
        ctx.default_map = {name: setting.typed() for name, setting in found.items()}
        try:
            return super().parse_args(ctx, args)
        except typer.BadParameter as error:
            name = str(getattr(error.param, "name", ""))
            if name not in found or given.get(name) is not None:
                raise
            path, key = found[name].place.path, found[name].key
            raise UsageError(f"{printable(str(path))}: {key}: {error.message}") from error

    def make_parser(self, ctx: Any) -> Any:
        """Typer's, with a form ``--no-…`` of every flag."""
        parser: Any = super().make_parser(ctx)
        for one in self.params:
            if (
                getattr(one, "is_flag", False)
                and not getattr(one, "secondary_opts", None)
                and one.name != "help"
            ):
                parser.add_option(
                    one, [f"--no-{config_file.key_of(one)}"], one.name, action="store_const", const=False
                )
        return parser


def _words(ctx: Any) -> config_file.Name:
    """The words that call a command, without the program's name."""
    words: list[str] = []
    while ctx.parent is not None:
        words.insert(0, str(ctx.info_name))
        ctx = ctx.parent
    return tuple(words)


class Commands(typer.Typer):
    """Typer's, whose commands also take ``-q``, ``-v`` and ``--log-file``, and read ``visil.toml``."""

    def command(self, name: str | None = None, **settings: Any) -> Callable[[Function], Function]:
        """Register a function as a command; the function itself stays as it is."""
        register = super().command(name, cls=Command, **settings)

        def registered(function: Function) -> Function:
            register(_with_common_options(function))
            return function

        return registered


def _with_common_options(function: Callable[..., None]) -> Callable[..., None]:
    """A command that runs inside :func:`verbosity.chosen`, and has its parameters as options beside its own."""
    common = inspect.signature(verbosity.chosen, eval_str=True).parameters
    own = inspect.signature(function, eval_str=True)

    @wraps(function)
    def command(**given: Any) -> None:
        with verbosity.chosen(**{name: given.pop(name) for name in common}):
            function(**given)

    parameters = (*own.parameters.values(), *common.values())
    # What Typer makes of a command hangs on these two.
    command.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {one.name: one.annotation for one in parameters}
    return command
