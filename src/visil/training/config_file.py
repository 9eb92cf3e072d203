"""A training configuration from YAML, checked strictly: complaints name the file, the key and its allowed values."""

from __future__ import annotations

import os
import types
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from visil.errors import FileError, UsageError, os_reason, printable
from visil.training.config import TrainConfig


def read_train_config(path: str | os.PathLike[str]) -> TrainConfig:
    """The configuration in a YAML file; settings left out have their defaults."""
    import yaml

    try:
        values = yaml.safe_load(Path(path).read_text("utf-8"))
    except OSError as error:
        raise FileError(path, f"cannot be read: {os_reason(error)}") from error
    except UnicodeDecodeError:
        raise FileError(path, "is not a text file") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" in line {mark.line + 1}" if mark is not None else ""
        raise FileError(
            path, f"is not YAML: {getattr(error, 'problem', None) or 'bad syntax'}{where}"
        ) from None
    try:
        return train_config(values if values is not None else {})
    except UsageError as error:
        raise UsageError(f"{printable(os.fspath(path))}: {error}") from None


def train_config(values: object) -> TrainConfig:
    """The configuration in nested mappings, as YAML gives them; ``recipe: paper`` names the recipe that they change."""
    from visil.training.recipes import recipe_called

    name = values.get("recipe") if isinstance(values, dict) else None
    config = _parse_section(TrainConfig, values, "", recipe_called(name).config if name else None)
    assert isinstance(config, TrainConfig)
    return config


def _parse(kind: Any, value: Any, key: str) -> Any:
    """``value`` as a ``kind``; ``key`` is where it stands, dotted."""
    if is_dataclass(kind):
        return _parse_section(kind, value, key)
    origin = get_origin(kind)
    if origin is Literal and value in get_args(kind):
        return value
    if origin in (Union, types.UnionType):
        return _parse_union(kind, value, key)
    if origin is tuple:
        items = [value] if isinstance(value, str | int) else value
        if isinstance(items, list | tuple):
            inner = get_args(kind)[0]
            return tuple(_parse(inner, item, f"{key}[{i}]") for i, item in enumerate(items))
    elif kind is float:
        if isinstance(value, str):  # YAML 1.1 takes 1e-5 for text
            try:
                return float(value)
            except ValueError:
                pass
        elif isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
    elif kind in (int, str, bool) and type(value) is kind:
        return value
    raise UsageError(f"{key} must be {_words(kind)}, not {value!r}")


def _parse_section(kind: Any, value: Any, key: str, base: Any = None) -> Any:
    """Settings of a section; those not given are as in ``base``, or have their defaults."""
    if not isinstance(value, dict):
        raise UsageError(f"{key or 'the file'} must hold settings (name: value), not {value!r}")
    known = {f.name for f in fields(kind)}
    prefix = f"{key}." if key else ""
    for name in value:
        if name not in known:
            raise UsageError(f"unknown setting {prefix}{name}: choose from {', '.join(sorted(known))}")
    hints = get_type_hints(kind)
    given = {}
    for name, inner in value.items():
        below = getattr(base, name, None)
        if is_dataclass(hints[name]):
            given[name] = _parse_section(hints[name], inner, prefix + name, below)
        else:
            given[name] = _parse(hints[name], inner, prefix + name)
    return kind(**given) if base is None else replace(base, **given)


def _parse_union(kind: Any, value: Any, key: str) -> Any:
    choices = get_args(kind)
    if value is None and type(None) in choices:
        return None
    for choice in choices:
        if choice is not type(None):
            try:
                return _parse(choice, value, key)
            except UsageError:
                continue
    raise UsageError(f"{key} must be {_words(kind)}, not {value!r}")


def _words(kind: Any) -> str:
    """The values that a type takes, for people."""
    origin = get_origin(kind)
    if origin is Literal:
        return f"one of {', '.join(map(str, get_args(kind)))}"
    if origin is tuple:
        return f"a list, each {_words(get_args(kind)[0])}"
    if origin in (Union, types.UnionType):
        return " or ".join(_words(choice) for choice in get_args(kind))
    names = {
        int: "a whole number",
        float: "a number",
        str: "text",
        bool: "true or false",
        type(None): "empty",
    }
    return names.get(kind, str(kind))
