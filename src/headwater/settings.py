"""Frozen dataclasses to plain JSON or TOML data and back, strictly.

Alternatives are union types of dataclasses: in a file they are told apart by ``kind``, the class' name in kebab case
(``{"kind": "pre-norm", …}``), and one without settings may be written as that name alone (``"no-norm"``). A ``tuple[X, ...]``
is a list there. Unknown keys are refused with a suggestion, and nothing is converted but whole numbers to floats.
"""

import dataclasses
import functools
import math
import re
import types
import typing
from typing import Any, TypeVar

from headwater.errors import ConfigError, did_you_mean

Value = TypeVar("Value")
Plain = dict[str, Any]


def kind_of(alternative: type[Any]) -> str:
    """The name that a dataclass has in files.

    >>> class RMSNorm: ...
    >>> class PreNorm: ...
    >>> kind_of(RMSNorm), kind_of(PreNorm)
    ('rms-norm', 'pre-norm')
    """
    return re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "-", alternative.__name__).lower()


@typing.dataclass_transform(frozen_default=True, kw_only_default=True)
def setting(kind: type[Value]) -> type[Value]:
    """A frozen, keyword-only dataclass whose fields are checked against their annotations when a value is made.

    >>> @setting
    ... class Dial:
    ...     level: float
    ...     mode: typing.Literal["slow", "fast"] = "slow"
    >>> Dial(level=1)
    Dial(level=1.0, mode='slow')
    >>> Dial(level=1.0, mode="fats")
    Traceback (most recent call last):
    headwater.errors.ConfigError: mode is 'fats'
    one of slow, fast; did you mean fast?
    """
    further = kind.__dict__.get("__post_init__")

    def __post_init__(self: Any) -> None:  # noqa: N807
        _conform(self)
        if further is not None:
            further(self)

    typing.cast(Any, kind).__post_init__ = __post_init__
    return dataclasses.dataclass(frozen=True, slots=True, kw_only=True)(kind)


def _conform(value: Any) -> None:
    """Refuse a field that is not what its annotation says; whole numbers become floats where these are asked for."""
    for name, hint in _hints(value.__class__).items():
        object.__setattr__(value, name, _conformed(hint, getattr(value, name), name))


def _conformed(hint: Any, given: Any, name: str) -> Any:
    members = _alternatives(hint)
    if given is None and type(None) in typing.get_args(hint):
        return None
    if typing.get_origin(members[0]) is tuple:
        return tuple(_conformed(inner, each, place) for inner, each, place in _listed(members[0], given, name))
    if all(dataclasses.is_dataclass(member) for member in members):
        if not isinstance(given, members):
            kinds = [member.__name__ for member in members]
            raise ConfigError(f"{name} is {given!r:.80}", f"a value of {' or '.join(kinds)}", f"change {name}")
        return given
    return _read(hint, given, name)


@functools.cache
def _hints(kind: type[Any]) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def to_plain(value: Any) -> Any:
    """Dictionaries, lists, numbers and strings that ``from_plain`` reads back as an equal value; ``None`` is left out."""
    kind: type[Any] = value.__class__
    if not dataclasses.is_dataclass(kind):
        return value
    plain: Plain = {}
    hints = _hints(kind)
    there: Plain = {field.name: getattr(value, field.name) for field in dataclasses.fields(kind)}
    for name, inner in there.items():
        if inner is not None:
            plain[name] = _plain(hints[name], inner)
    return plain


def _plain(hint: Any, value: Any) -> Any:
    first, *others = _alternatives(hint)
    if typing.get_origin(first) is tuple:
        return [_plain(inner, each) for inner, each, _ in _listed(first, value, "")]
    told = {"kind": kind_of(value.__class__)} if others else {}
    return {**told, **to_plain(value)} if told else to_plain(value)


def from_plain(kind: type[Value], plain: Any, where: str = "") -> Value:
    """The value of dataclass ``kind`` that ``plain`` describes; ``where`` names the place in errors."""
    place = where or kind.__name__
    if not isinstance(plain, dict):
        raise ConfigError(f"{place} is {plain!r:.80}", "a table of settings", f"write {_fields_of(kind)}")
    data = typing.cast(Plain, plain)
    hints = _hints(kind)
    fields = {field.name: field for field in dataclasses.fields(typing.cast(Any, kind))}
    for name in data:
        if name not in fields:
            raise ConfigError(f"{place} has an unknown key {name!r:.80}", "known keys only", did_you_mean(str(name), fields))
    values: Plain = {}
    for name, field in fields.items():
        if name in data:
            values[name] = _read(hints[name], data[name], f"{where}.{name}" if where else name)
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise ConfigError(f"{place} has no {name!r}", f"a value for {name}", f"write {_fields_of(kind)}")
    return kind(**values)


def _fields_of(kind: type) -> str:
    return ", ".join(field.name for field in dataclasses.fields(typing.cast(Any, kind))) or "nothing but its kind"


def _alternatives(hint: Any) -> tuple[Any, ...]:
    """The members of a union but for ``None``; a type that is no union is its own only alternative."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return tuple(member for member in typing.get_args(hint) if member is not type(None))
    return (hint,)


def _read(hint: Any, plain: Any, where: str) -> Any:
    members = _alternatives(hint)
    if len(members) > 1:
        return _read_alternative(members, plain, where)
    (hint,) = members or (hint,)
    if typing.get_origin(hint) is tuple:
        return tuple(_read(inner, each, place) for inner, each, place in _listed(hint, plain, where))
    if dataclasses.is_dataclass(hint):
        return from_plain(typing.cast(type[Any], hint), plain, where)
    if typing.get_origin(hint) is typing.Literal:
        if plain not in typing.get_args(hint):
            names = [str(name) for name in typing.get_args(hint)]
            raise ConfigError(f"{where} is {plain!r:.80}", f"one of {', '.join(names)}", did_you_mean(str(plain), names))
        return plain
    return _read_scalar(hint, plain, where)


def _listed(hint: Any, given: Any, where: str) -> list[tuple[Any, Any, str]]:
    """For each member of a list that ``tuple[X, ...]`` asks for: ``X``, the member and its place."""
    inner, dots = typing.get_args(hint)
    assert dots is ..., "settings hold lists of any length only"
    if not isinstance(given, list | tuple):
        raise ConfigError(f"{where} is {given!r:.80}", "a list", f"write {where} = […]")
    members = typing.cast(list[Any], given)
    return [(inner, each, f"{where}[{number}]") for number, each in enumerate(members)]


def _read_alternative(members: tuple[Any, ...], plain: Any, where: str) -> Any:
    by_kind = {kind_of(member): member for member in members}
    data: Plain = {"kind": plain} if isinstance(plain, str) else typing.cast(Plain, plain) if isinstance(plain, dict) else {}
    kind = data.get("kind")
    if not isinstance(kind, str) or kind not in by_kind:
        given = f"{where} is {plain!r:.80}" if kind is None else f"{where} has kind {kind!r:.80}"
        raise ConfigError(given, f"a kind among {', '.join(by_kind)}", did_you_mean(str(kind), by_kind))
    return from_plain(by_kind[kind], {name: value for name, value in data.items() if name != "kind"}, where)


def _read_scalar(hint: Any, plain: Any, where: str) -> Any:
    if hint is float and type(plain) is int and abs(plain) < 2**53:
        plain = float(plain)
    if type(plain) is not hint or (hint is float and not math.isfinite(plain)):
        words = {int: "a whole number", float: "a finite number", bool: "true or false", str: "a text"}
        raise ConfigError(f"{where} is {plain!r:.80}", words[hint], f"change {where}")
    return plain
