"""Lines of YAML: safe scalars, safe comments, and edits of existing text."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from trainwright.contract.reading.overrides import Override, read_settings
from trainwright.contract.reading.yaml_reader import Plain, read_yaml
from trainwright.core.files import Json

_PLAIN = re.compile(r"(\.\./)*[A-Za-z_][A-Za-z0-9_./-]*")
_RESERVED = frozenset(
    {"yes", "no", "true", "false", "on", "off", "null", "y", "n", "auto", "nan", "inf"}
)
_MOST_OF_A_COMMENT = 400
_KEY = re.compile(r"( *)(\"(?:[^\"\\]|\\.)*\"|[^\s#:\"-][^:#]*):(?: +(.*)|)$")
_SAID = "set with --set"


def scalar(text: str) -> str:
    """YAML string: plain where unambiguous, else in double quotes."""
    if _PLAIN.fullmatch(text) and text.lower() not in _RESERVED:
        return text
    return json.dumps(text, ensure_ascii=not text.isprintable())


def comment(text: str) -> str:
    """One line of printable text for a comment, shortened if too long."""
    line = "".join(mark if mark.isprintable() else " " for mark in text)
    return line if len(line) <= _MOST_OF_A_COMMENT else line[: _MOST_OF_A_COMMENT - 3] + "..."


def flow(value: Json) -> str:
    """A value in flow style."""
    match value:
        case dict():
            items = (f"{scalar(str(key))}: {flow(item)}" for key, item in value.items())
            return "{" + ", ".join(items) + "}"
        case list() | tuple():
            return "[" + ", ".join(flow(item) for item in value) + "]"
        case str():
            return scalar(value)
        case bool():
            return "true" if value else "false"
        case None:
            return "null"
        case _:
            return repr(value)


def with_settings(text: str, overrides: Sequence[str]) -> str:
    """A contract written by `init`, with single values replaced.

    Raises:
        ContractMistake: an override that cannot be read.
    """
    lines = text.splitlines()
    for setting in read_settings(overrides):
        lines = _set(lines, setting)
    return "\n".join(lines) + "\n"


@final
@dataclass(frozen=True, slots=True)
class _Block:
    """Lines `start` to `stop` at an indent: the root, or the value of a key."""

    start: int
    stop: int
    indent: int


def _set(lines: list[str], setting: Override) -> list[str]:
    block = _Block(0, len(lines), 0)
    for depth, part in enumerate(setting.parts):
        at = _find(lines, block, part)
        rest = setting.parts[depth + 1 :]
        if at is None:
            new = (
                f"{' ' * block.indent}{scalar(part)}: {flow(_nested(rest, setting.written.value))}"
            )
            return [*lines[: block.stop], f"{new}  # {_SAID}", *lines[block.stop :]]
        inner = _inside(lines, at, block)
        held = [line for line in lines[inner.start : inner.stop] if line.strip()]
        is_list = bool(held) and held[0].lstrip().startswith("- ")
        if rest and held and not is_list and _KEY.match(held[0]):
            block = inner
            continue
        value = _replaced(_value(lines[at : inner.stop]), rest, setting.written.value)
        line = f"{' ' * block.indent}{scalar(part)}: {flow(value)}  # {_SAID}"
        return [*lines[:at], line, *lines[inner.stop :]]
    raise AssertionError("a path has parts")


def _find(lines: list[str], block: _Block, part: str) -> int | None:
    for at in range(block.start, block.stop):
        found = _KEY.match(lines[at])
        if found and len(found[1]) == block.indent and _name(found[2]) == part:
            return at
    return None


def _name(written: str) -> str:
    return str(json.loads(written)) if written.startswith('"') else written.strip()


def _inside(lines: list[str], at: int, block: _Block) -> _Block:
    """The block below the key on a line."""
    stop = at + 1
    while stop < block.stop and (
        not lines[stop].strip() or len(lines[stop]) - len(lines[stop].lstrip()) > block.indent
    ):
        stop += 1
    deeper = [line for line in lines[at + 1 : stop] if line.strip()]
    indent = len(deeper[0]) - len(deeper[0].lstrip()) if deeper else block.indent + 2
    return _Block(at + 1, stop, indent)


def _value(lines: list[str]) -> Plain:
    written = read_yaml("\n".join(lines).encode(), "contract").value
    assert isinstance(written, dict), "a key and what it holds"
    return next(iter(written.values()))


def _nested(path: Sequence[str], value: Plain) -> Plain:
    for part in reversed(path):
        value = {part: value}
    return value


def _replaced(held: Plain, path: Sequence[str], value: Plain) -> Plain:
    if not path:
        return value
    if isinstance(held, list):
        at = int(path[0]) if path[0].isdecimal() else len(held)
        inner = held[at] if at < len(held) else None
        return [*held[:at], _replaced(inner, path[1:], value), *held[at + 1 :]]
    keys = held if isinstance(held, dict) else {}
    if path == ("kind",) and keys.get("kind") != value:
        # The other keys belong to the kind that is replaced.
        return {"kind": value}
    return {**keys, path[0]: _replaced(keys.get(path[0]), path[1:], value)}
