"""A family of commands, each with the options that every command has."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import typer

from visil.cli import verbosity

Function = TypeVar("Function", bound=Callable[..., None])


class Commands(typer.Typer):
    """Typer's, whose commands also take ``-q``, ``-v`` and ``--log-file``."""

    def command(self, name: str | None = None, **settings: Any) -> Callable[[Function], Function]:
        """Register a function as a command; the function itself stays as it is."""
        register = super().command(name, **settings)

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
