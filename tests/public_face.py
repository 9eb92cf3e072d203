"""Python read without running it: does each name, attribute and argument that it uses exist on visil's public objects?

Types are followed through annotations: what a call returns is what its function says it returns.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import types
import typing
from collections.abc import Callable
from typing import Any

Unknown: Any = Any
"""The type of what is not visil's: lists of paths, pictures, numbers."""


def returned(function: Callable[..., Any]) -> Any:
    """The type that a function says it returns, names that only type checkers import included."""
    function = inspect.unwrap(function)
    if inspect.isclass(function):
        return function
    return _hints(function, function.__module__).get("return", Unknown)


def member(owner: Any, name: str) -> Any:
    """What ``owner.name`` is: a function, or the type of a field or property. AttributeError if there is none."""
    if inspect.ismodule(owner):
        return getattr(owner, name)
    if not inspect.isclass(owner):
        raise AttributeError(f"{owner} is no class with attributes, but .{name} is used")
    found = inspect.getattr_static(owner, name, None)
    if isinstance(found, property):
        assert found.fget is not None
        return returned(found.fget)
    if isinstance(found, classmethod | staticmethod):
        return getattr(owner, name)
    if inspect.isfunction(found):
        return types.MethodType(found, owner)
    for kind in owner.__mro__:
        if name in getattr(kind, "__annotations__", {}):
            return _hints(kind, kind.__module__)[name]
    func = getattr(found, "func", None)  # functools.cached_property
    if func is not None:
        return returned(func)
    raise AttributeError(f"{owner.__name__} has no attribute {name!r}")


class Reader:
    """Reads statements in order; an error says what is not there, or which argument a call does not take."""

    def __init__(self, **names: Any) -> None:
        self.names = names
        self.used: set[str] = set()

    def read(self, code: str) -> None:
        """All statements of ``code``."""
        for statement in ast.parse(code).body:
            self._statement(statement)

    def _statement(self, node: ast.stmt) -> None:
        match node:
            case ast.Import():
                self.names |= {alias.name: importlib.import_module(alias.name) for alias in node.names}
            case ast.Assign(targets=[ast.Name(name)]):
                self.names[name] = self.type_of(node.value)
            case ast.Expr():
                self.type_of(node.value)
            case ast.For(target=ast.Name(name)):
                self.names[name] = _element(self.type_of(node.iter))
                for inner in node.body:
                    self._statement(inner)
            case _:
                raise NotImplementedError(ast.unparse(node))

    def type_of(self, node: ast.expr) -> Any:
        """The type of an expression's value."""
        match node:
            case ast.Name(name):
                return self.names.get(name, Unknown)
            case ast.Attribute(value, name):
                owner = self.type_of(value)
                if owner is Unknown:
                    return Unknown
                self.used.add(f"{getattr(owner, '__name__', owner)}.{name}")
                return member(owner, name)
            case ast.Call():
                return self._call(node)
            case ast.Tuple(elements) | ast.List(elements):
                for element in elements:
                    self.type_of(element)
                return Unknown
            case ast.Constant():
                return Unknown
        raise NotImplementedError(ast.unparse(node))

    def _call(self, node: ast.Call) -> Any:
        called = self.type_of(node.func)
        arguments = [self.type_of(argument) for argument in node.args]
        named = {str(keyword.arg): self.type_of(keyword.value) for keyword in node.keywords}
        if called is Unknown:
            return Unknown
        try:
            inspect.signature(called).bind(*arguments, **named)
        except TypeError as error:
            raise TypeError(f"{ast.unparse(node)}: {error}") from None
        found = returned(called.__func__ if isinstance(called, types.MethodType) else called)
        if found is typing.Self:
            return getattr(called, "__self__", Unknown)
        return found


def visil_types(hint: Any) -> set[type]:
    """The classes of visil inside a type, however deep."""
    if inspect.isclass(hint) and hint.__module__.startswith("visil"):
        return {hint}
    return set().union(*(visil_types(part) for part in typing.get_args(hint)))


def public_callables(kind: type) -> dict[str, Callable[..., Any]]:
    """A class's own public methods and properties."""
    found: dict[str, Callable[..., Any]] = {}
    for name in dir(kind):
        where = next(k for k in kind.__mro__ if name in vars(k))
        if name.startswith("_") or not where.__module__.startswith("visil"):
            continue
        value = vars(where)[name]
        value = getattr(value, "fget", None) or getattr(value, "__func__", None) or value
        if inspect.isfunction(value) and not (dataclasses.is_dataclass(kind) and name == "__init__"):
            found[name] = value
    return found


def _element(kind: Any) -> Any:
    (base, *_) = getattr(kind, "__orig_bases__", (kind,))  # class Hits(list[Hit])
    parts = typing.get_args(base)
    return parts[0] if parts else Unknown


def _hints(owner: Any, module_name: str) -> dict[str, Any]:
    module = importlib.import_module(module_name)
    names = dict(vars(module))
    for node in ast.parse(inspect.getsource(module)).body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            exec(compile(ast.Module(node.body, []), module_name, "exec"), names)
    return typing.get_type_hints(owner, names)
