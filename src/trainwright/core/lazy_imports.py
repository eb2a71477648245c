"""Imports that wait: tables whose entries are imported when they are looked up, optional
dependencies."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any, TypeVar, final

from trainwright.core.errors import MissingExtra, Problem

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


def need_torch(path: str, what: str) -> None:
    """Raise `MissingExtra`, with the install command, if torch is not installed.

    `path` is the contract path that needs it, `what` the feature.
    """
    if find_spec("torch") is None or find_spec("safetensors") is None:
        raise MissingExtra(
            Problem(
                f"{what} needs PyTorch, which is not installed",
                path=path,
                fix="pip install 'trainwright[torch]'",
            )
        )


def need_transformers(path: str) -> None:
    """Raise `MissingExtra` if transformers, which builds and reads encoders of texts, is not
    installed. `path` is the contract path that needs it."""
    need_torch(path, "an encoder of texts")
    if find_spec("transformers") is None or find_spec("tokenizers") is None:
        raise MissingExtra(
            Problem(
                "an encoder of texts needs transformers, which is not installed",
                path=path,
                fix="pip install 'trainwright[transformers]'",
            )
        )


def need_tokenizers(path: str) -> None:
    """Raise `MissingExtra` if the tokenizers library, needed for subword vocabularies, is not
    installed. `path` is the contract path that needs it."""
    if find_spec("tokenizers") is None:
        raise MissingExtra(
            Problem(
                "a vocabulary of word pieces needs the tokenizers library, which is not installed",
                path=path,
                fix="pip install 'trainwright[text]'",
            )
        )


def need_onnx() -> None:
    """Raise `MissingExtra` if a package that writes or runs ONNX is not installed."""
    if missing := [one for one in ("onnx", "onnxruntime", "onnxscript") if find_spec(one) is None]:
        raise MissingExtra(
            Problem(
                "ONNX needs packages that are not installed",
                found=f"no {', '.join(missing)}",
                fix="pip install 'trainwright[torch,onnx]'",
            )
        )


def need_pyarrow(path: str) -> None:
    """Raise `MissingExtra` if pyarrow, which memory-maps rows from files, is not installed. `path`
    is the contract path that needs it."""
    if find_spec("pyarrow") is None:
        raise MissingExtra(
            Problem(
                "rows in files need pyarrow, which is not installed",
                path=path,
                fix="pip install 'trainwright[large]'",
            )
        )


def need_package(module: str, extra: str, path: str, what: str) -> None:
    """Raise `MissingExtra`, with the install command, if the package of an extra is not installed.

    `path` is the contract path that needs it, `what` the feature.
    """
    if find_spec(module) is None:
        raise MissingExtra(
            Problem(
                f"{what} needs the package {module}, which is not installed",
                path=path,
                fix=f"pip install 'trainwright[{extra}]'",
            )
        )
