"""Runtime check of what a file's JSON has become against the annotations of its dataclass."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from types import UnionType
from typing import Any, Literal, NoReturn, Union, get_args, get_origin, get_type_hints

import numpy as np


def check_annotated(value: object, place: str) -> None:
    """Check the fields of a dataclass, and of those in it, against their annotations: a reader of
    JSON takes any value for any field.

    Raises:
        ValueError: a value of another type, a NaN, or a text that cannot be encoded; with its
            place.
    """
    kinds = get_type_hints(type(value))
    for one in fields(value):  # type: ignore[arg-type]
        _check(getattr(value, one.name), kinds[one.name], f"{place}.{one.name}")


def _check(value: Any, kind: Any, place: str) -> None:
    origin, parts = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        _check_one_of(value, parts, place)
    elif origin is Literal:
        _ask(any(type(value) is type(one) and value == one for one in parts), value, place)
    elif origin is tuple:
        _check_tuple(value, parts, place)
    elif origin is not None and issubclass(origin, Mapping):
        _ask(isinstance(value, Mapping), value, place)
        for key, item in value.items():
            _check(key, parts[0], place)
            _check(item, parts[1], f"{place}.{key}")
    elif origin is np.ndarray:
        _ask(isinstance(value, np.ndarray) and bool(np.isfinite(value).all()), value, place)
    elif is_dataclass(kind):
        _ask(isinstance(value, kind), value, place)  # type: ignore[arg-type]
        check_annotated(value, place)
    else:
        _check_plain(value, kind, place)


def _check_one_of(value: object, kinds: tuple[Any, ...], place: str) -> None:
    if not any(_is_one(value, kind, place) for kind in kinds):
        _refuse(value, place)


def _is_one(value: object, kind: object, place: str) -> bool:
    try:
        _check(value, kind, place)
    except ValueError:
        return False
    return True


def _check_tuple(value: Any, parts: tuple[Any, ...], place: str) -> None:
    _ask(isinstance(value, tuple), value, place)
    if parts[1:] == (...,):
        parts = parts[:1] * len(value)
    _ask(len(value) == len(parts), value, place)
    for at, (item, kind) in enumerate(zip(value, parts, strict=True)):
        _check(item, kind, f"{place}.{at}")


def _check_plain(value: Any, kind: Any, place: str) -> None:
    if kind is float:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        _ask(number and (isinstance(value, int) or not math.isnan(value)), value, place)
    elif kind in (int, bool):
        _ask(type(value) is kind, value, place)
    else:
        _ask(isinstance(value, kind), value, place)
    if isinstance(value, str):
        value.encode()


def _ask(holds: bool, value: object, place: str) -> None:
    if not holds:
        _refuse(value, place)


def _refuse(value: object, place: str) -> NoReturn:
    raise ValueError(f"{place} holds {value!r:.40}")
