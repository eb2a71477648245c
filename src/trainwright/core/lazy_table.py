"""Tables whose entries are imported when they are first looked up."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Any, TypeVar, final

T = TypeVar("T")


def _unchanged(found: Any) -> Any:
    return found


@final
class LazyTable(Mapping[str, T]):
    """A closed table of what modules define. Who looks at its keys imports nothing, and who looks
    one up imports that one alone."""

    def __init__(self, places: Mapping[str, str], build: Callable[[Any], T] = _unchanged) -> None:
        """`places` names a module and what it defines, as "package.module:name"; `build` turns
        that into the value, once."""
        self._places = dict(places)
        self._build = build
        self._found: dict[str, T] = {}

    def __getitem__(self, key: str, /) -> T:
        if key not in self._found:
            module, _, name = self._places[key].partition(":")
            self._found[key] = self._build(getattr(import_module(module), name))
        return self._found[key]

    def __contains__(self, key: object, /) -> bool:
        return key in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)
