"""Prepared values as a folder: JSON, with every array and frame in a file that is mapped when it is
opened, so that many processes share its pages."""

from __future__ import annotations

import math
from collections.abc import Mapping, Set
from dataclasses import fields, is_dataclass
from importlib import import_module
from pathlib import Path
from types import FunctionType
from typing import Any, final

import numpy as np
import polars as pl
from pydantic import BaseModel

from trainwright.core.files import Json, read_json, storage_errors, write_json
from trainwright.data.encoders.encoding import Encoding
from trainwright.data.types import encoding_from_json

_VALUES = "values.json"
_HOME = "trainwright."


def write_values(value: object, folder: Path) -> None:
    """Write a value of our own classes, with what it holds, into a new folder; `values.json` comes
    last, so a folder that has one is complete.

    Raises:
        TypeError: it holds what is neither data nor an object of this package. StorageFailed: the
            disk.
    """
    with storage_errors(f"writing {folder}"):
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / _VALUES, _Writing(folder).describe(value))


def open_values(folder: Path) -> Any:
    """The value that `write_values` wrote. Its arrays and frames are mapped, and what is written to
    an array stays in this process."""
    return _Opening(folder).value(read_json(folder / _VALUES))


def are_written(folder: Path) -> bool:
    """Does the folder hold a complete value?"""
    return (folder / _VALUES).is_file()


@final
class _Writing:
    """Files are numbered in the order of the value; what stands in it twice is written once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._values: dict[int, tuple[object, Json]] = {}

    def describe(self, value: object) -> Json:
        """JSON of a value; lists and plain values stand for themselves."""
        match value:
            case None | bool() | int() | str():
                return value
            case float():
                return value if math.isfinite(value) else {"float": repr(value)}
            case list():
                return [self.describe(item) for item in value]
            case Path():
                return {"path": str(value)}
        if id(value) not in self._values:
            self._values[id(value)] = value, self._describe_object(value)
        return self._values[id(value)][1]

    def _describe_object(self, value: object) -> Json:
        match value:
            case np.ndarray():
                return {"array": self._file("npy", lambda path: np.save(path, value, False))}
            case pl.DataFrame():
                return {"frame": self._file("arrow", value.write_ipc)}
            case Encoding():
                return {"encoding": {**value.to_json(), **value.beside()}}
            case BaseModel():
                # Not its own JSON, which leaves out fields that are only for this process.
                model = f"{type(value).__module__}:{type(value).__qualname__}"
                content = {name: self.describe(item) for name, item in value}
                return {"model": model, "content": content, "set": sorted(value.model_fields_set)}
            case Mapping():
                pairs = [[self.describe(key), self.describe(item)] for key, item in value.items()]
                return {"mapping": pairs}
            case Set():
                items = [self.describe(item) for item in sorted(value, key=repr)]
                return {"set": items}
            case tuple() if type(value) is tuple:
                return {"tuple": [self.describe(item) for item in value]}
        kind = type(value)
        if not kind.__module__.startswith(_HOME) or "<" in kind.__qualname__:
            raise TypeError(f"{kind.__module__}.{kind.__qualname__} cannot be written as data")
        content = {name: self.describe(item) for name, item in _fields_of(value).items()}
        return {"class": f"{kind.__module__}:{kind.__qualname__}", "content": content}

    def _file(self, suffix: str, write: Any) -> str:
        name = f"{len(list(self._folder.iterdir())):04d}.{suffix}"
        write(self._folder / name)
        return name


def _fields_of(value: object) -> dict[str, object]:
    """The attributes of an object, without functions that are the default of a field."""
    if isinstance(value, tuple):
        return dict(zip(type(value)._fields, value, strict=True))  # type: ignore[attr-defined]
    if not is_dataclass(value):
        return dict(vars(value))
    items = {field.name: getattr(value, field.name) for field in fields(value)}
    defaults = {field.name: field.default for field in fields(value)}
    return {
        name: item
        for name, item in items.items()
        if not (isinstance(item, FunctionType) and item is defaults[name])
    }


@final
class _Opening:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: dict[str, Any] = {}

    def value(self, json: Json) -> Any:
        """The value that was described."""
        if isinstance(json, list):
            return [self.value(item) for item in json]
        if not isinstance(json, dict):
            return json
        match json:
            case {"float": text}:
                return float(text)
            case {"path": text}:
                return Path(text)
            case {"array": name}:
                return self._map_file(name, lambda path: np.load(path, mmap_mode="c"))
            case {"frame": name}:
                return self._map_file(name, pl.read_ipc)
            case {"encoding": content}:
                return encoding_from_json(content)
            case {"mapping": pairs}:
                return {self.value(key): self.value(item) for key, item in pairs}
            case {"tuple": items}:
                return tuple(map(self.value, items))
            case {"model": name, "content": content, "set": names}:
                model: type[BaseModel] = _class_of(name)
                fields_of = {key: self.value(item) for key, item in content.items()}
                return model.model_construct(set(names), **fields_of)
            case {"class": name, "content": content}:
                return _object(name, {key: self.value(item) for key, item in content.items()})
            case {"set": items}:
                return frozenset(map(self.value, items))
        raise ValueError(f"{sorted(json)} describe no value")

    def _map_file(self, name: str, read: Any) -> Any:
        if name not in self._files:
            self._files[name] = read(self._folder / name)
        return self._files[name]


def _class_of(name: str) -> Any:
    """A class of this package."""
    module, _, inner = name.partition(":")
    if not module.startswith(_HOME):
        raise ValueError(f"{name} is no class of this package")
    kind: Any = import_module(module)
    for part in inner.split("."):
        kind = getattr(kind, part)
    assert isinstance(kind, type), "only objects of classes were written"
    return kind


def _object(name: str, content: Mapping[str, Any]) -> Any:
    """An object of this package with the attributes that it had; nothing of it runs."""
    kind = _class_of(name)
    if issubclass(kind, tuple):
        return kind(**content)
    value = object.__new__(kind)
    defaults = {field.name: field.default for field in fields(kind)} if is_dataclass(kind) else {}
    for key, item in {**defaults, **content}.items():
        object.__setattr__(value, key, item)
    return value
