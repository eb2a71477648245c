"""YAML text to plain Python values, each with its place, and nothing else ever happens.

Of YAML 1.2 the core schema is read: `2e-5` is a number, `yes`, `on` and `off` are text, dates stay
text as written. Refused are tags, merge keys, directives, several documents, duplicate keys, and
whatever could make a small file grow: so a hostile file costs no more than a large honest one.
The values are built from the parser's events, because a composed tree would be as deep as the file
says before anyone could object.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, final

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
    StreamEndEvent,
    StreamStartEvent,
)

from trainwright.contract.key_paths import join
from trainwright.core.errors import ContractMistake, Place, Problem
from trainwright.core.redaction import HIDDEN, names_a_secret

MAX_BYTES = 256 * 1024
MAX_DEPTH = 32
MAX_NODES = 20_000
MAX_ALIASES = 300
_MAX_DIGITS = 40
_MAX_PROBLEMS = 50

Plain: TypeAlias = "bool | int | float | str | list[Plain] | dict[str, Plain] | None"
"""Values of a contract before its shape is checked."""

_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_BOOLEANS = {"true": True, "True": True, "TRUE": True} | dict.fromkeys(
    ("false", "False", "FALSE"), False
)
_DECIMAL = re.compile(r"[-+]?[0-9]+")
_OTHER_BASE = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")


@dataclass(frozen=True, slots=True)
class ParsedYaml:
    """What a text says: its value, and where each path stands.

    Items count from 0; `""` is the root.
    """

    value: Plain
    places: Mapping[str, Place]


@dataclass(frozen=True, slots=True)
class _Node:
    """A value with its place. `size` and `depth` count what its aliases expand to."""

    place: Place
    value: bool | int | float | str | tuple[_Node, ...] | Mapping[str, _Node] | None
    size: int = 1
    depth: int = 1


class _Hopeless(Exception):
    """Nothing after this problem can be read."""


def read_yaml(data: bytes, file: str) -> ParsedYaml:
    """Read the bytes of one YAML document; messages and places name it `file`.

    Raises:
        ContractMistake: what is wrong with the text as YAML, all of it where reading can go on.
    """
    text = _decode(data, file)
    builder = _Builder(file)
    try:
        root = builder.document(text)
    except _Hopeless:
        raise ContractMistake(builder.problems) from None
    if builder.problems:
        raise ContractMistake(builder.problems)
    places: dict[str, Place] = {}
    return ParsedYaml(_plain(root, "", places), places)


def yaml_value_text(value: Plain) -> str:
    """A value roughly in YAML notation, in at most 80 characters, without the secrets of keys."""
    match value:
        case None:
            text = "nothing"
        case bool():
            text = "true" if value else "false"
        case str():
            text = value if _reads_as_text(value) else f'"{value}"'
        case list():
            text = "[" + ", ".join(yaml_value_text(item) for item in value[:20]) + "]"
        case dict():
            items = list(value.items())[:20]
            text = "{" + ", ".join(f"{key}: {_show_of_key(key, item)}" for key, item in items) + "}"
        case _:
            text = repr(value)
    text = "".join(letter if letter.isprintable() else "?" for letter in text)
    return text if len(text) <= 80 else text[:77] + "..."


def _show_of_key(key: str, value: Plain) -> str:
    return HIDDEN if names_a_secret(key) else yaml_value_text(value)


def _reads_as_text(value: str) -> bool:
    return value == value.strip() and isinstance(_scalar(value), str)


def _decode(data: bytes, file: str) -> str:
    if len(data) > MAX_BYTES:
        raise ContractMistake(
            Problem(
                "the contract is too large",
                found=f"more than {MAX_BYTES:,} bytes",
                expected=f"at most {MAX_BYTES:,} bytes",
                fix="check that this is the contract; data belongs in files that it names",
                place=Place(file),
            )
        )
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ContractMistake(
            Problem(
                "the contract is not UTF-8 text",
                found=f"byte 0x{data[error.start]:02x}",
                fix="save the file as UTF-8",
                place=Place(file, line),
            )
        ) from None
    if "\0" in text:
        raise ContractMistake(
            Problem(
                "the contract holds a NUL character",
                fix="save the file as plain UTF-8 text",
                place=Place(file, text.count("\n", 0, text.index("\0")) + 1),
            )
        )
    return text


def _scalar(text: str) -> bool | int | float | str | None:
    """The value of an unquoted scalar (YAML 1.2.2, section 10.3.2)."""
    if text in _NULLS:
        return None
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    if len(text) > _MAX_DIGITS:
        return float(text) if _FLOAT.fullmatch(text) else text
    if _DECIMAL.fullmatch(text):
        return int(text)
    if _OTHER_BASE.fullmatch(text):
        return int(text, 0)
    if _FLOAT.fullmatch(text):
        return float(text)
    return math.nan if _NOT_FINITE.fullmatch(text) else text


def _plain(node: _Node, path: str, places: dict[str, Place]) -> Plain:
    """The value with its aliases expanded. Bounded: the builder has counted the nodes."""
    places.setdefault(path, node.place)
    match node.value:
        case tuple():
            return [_plain(item, join(path, at), places) for at, item in enumerate(node.value)]
        case Mapping():
            return {key: _plain(item, join(path, key), places) for key, item in node.value.items()}
        case value:
            return value


@final
class _Builder:
    """Nodes from parser events, with the problems found on the way."""

    def __init__(self, file: str) -> None:
        self.problems: list[Problem] = []
        self._file = file
        self._events: Iterator[Event] = iter(())
        self._anchors: dict[str, _Node] = {}
        self._aliases = 0
        self._nodes = 0

    def document(self, text: str) -> _Node:
        """The root of the only document in `text`."""
        # Any: ruamel.yaml's own annotations are untyped here.
        parser: Any = YAML(typ="safe", pure=True)
        self._events = parser.parse(text)
        start = self._next()
        assert isinstance(start, StreamStartEvent), "a parser starts with the stream"
        start = self._next()
        if isinstance(start, StreamEndEvent):
            return _Node(Place(self._file), None)
        if isinstance(start, DocumentStartEvent) and (start.version or start.tags):
            self._refuse(start, "a YAML directive (%) is not read", fix="remove the line")
        root = self._node(self._next(), "", 1)
        self._next()
        rest = self._next()
        if not isinstance(rest, StreamEndEvent):
            self._refuse(rest, "the file holds several documents", fix="keep one; remove '---'")
        if root.size > MAX_NODES or root.depth > MAX_DEPTH:
            raise self._too_much(root.place)
        return root

    def _next(self) -> Event:
        try:
            return next(self._events)
        except MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            place = Place(self._file, mark.line + 1, mark.column + 1) if mark else Place(self._file)
            text = f"not valid YAML: {error.problem or error.context or 'unreadable'}"
        except (YAMLError, ValueError) as error:
            place = Place(self._file)
            reason = "unreadable" if isinstance(error, ValueError) else str(error).splitlines()[0]
            text = f"not valid YAML: {reason[:120]}"
        column = f"column {place.column}" if place.column else ""
        fix = "check the indentation, the quotes and the brackets on this line and the one before"
        self.problems.append(Problem(text, found=column, fix=fix, place=place))
        raise _Hopeless

    def _node(self, event: Event, path: str, depth: int) -> _Node:
        self._nodes += 1
        if depth > MAX_DEPTH or self._nodes > MAX_NODES:
            raise self._too_much(self._place(event))
        match event:
            case AliasEvent():
                return self._alias(event, path)
            case ScalarEvent():
                node = self._scalar_node(event, path)
            case SequenceStartEvent():
                node = self._sequence(event, path, depth)
            case MappingStartEvent():
                node = self._mapping(event, path, depth)
            case _:
                raise AssertionError(f"the parser gave {event} where a value starts")
        if event.tag is not None:
            self._refuse(event, "a YAML tag is not read", path, event.tag, fix="remove the tag")
        if event.anchor is not None:
            self._anchors[event.anchor] = node
        return node

    def _alias(self, event: AliasEvent, path: str) -> _Node:
        self._aliases += 1
        if self._aliases > MAX_ALIASES:
            raise self._too_much(self._place(event))
        node = self._anchors.get(event.anchor)
        if node is None:
            self._refuse(
                event,
                "an alias refers to nothing that is complete before it",
                path,
                f"*{event.anchor}",
                fix="write the value itself",
            )
            return _Node(self._place(event), None)
        return node

    def _scalar_node(self, event: ScalarEvent, path: str) -> _Node:
        text: str = event.value
        place = self._place(event)
        # A quoted or block scalar is text, whatever it looks like.
        value = _scalar(text) if event.implicit[0] and event.style is None else text
        if isinstance(value, float) and not math.isfinite(value):
            self._refuse(event, "the number is not finite", path, text, fix="write a finite number")
        if isinstance(value, str) and not _is_clean(value):
            self._refuse(event, "the text holds a character that is none", path, fix="remove it")
        too_long = len(text) > _MAX_DIGITS and isinstance(value, float)
        if too_long:
            self._refuse(event, "the number has too many digits", path, fix="write fewer digits")
        return _Node(place, value)

    def _sequence(self, event: SequenceStartEvent, path: str, depth: int) -> _Node:
        items: list[_Node] = []
        while not isinstance(start := self._next(), SequenceEndEvent):
            items.append(self._node(start, join(path, len(items)), depth + 1))
        return _nested(self._place(event), tuple(items), tuple(items))

    def _mapping(self, event: MappingStartEvent, path: str, depth: int) -> _Node:
        items: dict[str, _Node] = {}
        while not isinstance(start := self._next(), MappingEndEvent):
            key = self._key(start, path, depth, items)
            value = self._node(self._next(), join(path, key), depth + 1)
            # A mapping's value is looked for where its key stands.
            items[key] = _Node(self._place(start), value.value, value.size, value.depth)
        return _nested(self._place(event), items, tuple(items.values()))

    def _key(self, event: Event, path: str, depth: int, before: Mapping[str, _Node]) -> str:
        node = self._node(event, path, depth + 1)
        if not isinstance(node.value, str):
            shown = event.value if isinstance(event, ScalarEvent) else ""
            fix = f'put it in quotes: "{shown}"' if shown else "write a name"
            self._refuse(event, "a key must be text", path, shown, fix=fix)
            return shown
        key = node.value
        if key == "<<" and isinstance(event, ScalarEvent) and event.style is None:
            self._refuse(event, "a merge key (<<) is not read", path, fix="write the keys out")
        elif key in before:
            line = before[key].place.line
            self._refuse(
                event,
                f"the key stands here a second time; the first is on line {line}",
                join(path, key),
                fix="keep one of the two",
            )
        return key

    def _place(self, event: Event) -> Place:
        mark = event.start_mark
        return Place(self._file, mark.line + 1, mark.column + 1)

    def _refuse(
        self, event: Event, message: str, path: str = "", found: str = "", *, fix: str
    ) -> None:
        found = found if len(found) <= 80 else found[:77] + "..."
        self.problems.append(
            Problem(message, path=path, found=found, fix=fix, place=self._place(event))
        )
        if len(self.problems) >= _MAX_PROBLEMS:
            raise _Hopeless

    def _too_much(self, place: Place) -> _Hopeless:
        self.problems.append(
            Problem(
                "the contract is nested or repeated beyond reason",
                expected=f"at most {MAX_DEPTH} levels, {MAX_NODES:,} values with their aliases "
                f"expanded, and {MAX_ALIASES} aliases",
                fix="write the values out plainly",
                place=place,
            )
        )
        return _Hopeless()


def _nested(
    place: Place, value: tuple[_Node, ...] | Mapping[str, _Node], children: tuple[_Node, ...]
) -> _Node:
    size = 1 + sum(child.size for child in children)
    depth = 1 + max((child.depth for child in children), default=0)
    return _Node(place, value, size, depth)


def _is_clean(text: str) -> bool:
    """Whether the text can be a name or a path: no NUL, and every character a real one."""
    return "\0" not in text and not any("\ud800" <= letter <= "\udfff" for letter in text)
