"""Nested values as text: JSON, or chat turns.

Chats come as lists of turns in two spellings: `{"role": ..., "content": ...}` (chat completions)
and `{"from": ..., "value": ...}` (ShareGPT, which many collections of conversations stem from).
"""

from __future__ import annotations

import json
from typing import Literal

import polars as pl

from trainwright.core.files import Json

_SPELLINGS = (("role", "content"), ("from", "value"))


def nested_text(value: Json, nested: Literal["text", "chat"]) -> str:
    """A list or an object as text.

    Under `chat` a list of turns has a line for each, `role: content`. What a turn holds beside
    these two, such as the calls of tools, stands behind the content as JSON.

    Raises:
        ValueError: a list holds turns and something else.
    """
    if nested == "chat" and isinstance(value, list):
        for role, content in _SPELLINGS:
            if any(isinstance(turn, dict) and role in turn for turn in value):
                lines = [_turn(turn, at, role, content) for at, turn in enumerate(value, start=1)]
                return "".join(f"{line}\n" for line in lines)
    return _json(value)


def with_text(rows: pl.LazyFrame, nested: Literal["text", "chat"]) -> pl.LazyFrame:
    """The rows with every column of lists or structs as text; a missing value stays one."""

    def text(value: Json) -> str:
        return nested_text(value.to_list() if isinstance(value, pl.Series) else value, nested)

    nested_types = {name: one for name, one in rows.collect_schema().items() if one.is_nested()}
    arrays = [name for name, one in nested_types.items() if isinstance(one, pl.Array)]
    names = list(nested_types)
    rows = rows.with_columns(pl.col(name).arr.to_list() for name in arrays)
    return rows.with_columns(pl.col(name).map_elements(text, pl.String) for name in names)


def _turn(turn: Json, number: int, role: str, content: str) -> str:
    if not isinstance(turn, dict) or turn.get(role) is None or content not in turn:
        raise ValueError(f"turn {number} is no turn: it lacks {role!r} or {content!r}")
    others = {
        key: item for key, item in turn.items() if key not in (role, content) and item is not None
    }
    said = turn[content]
    words = said if isinstance(said, str) else "" if said is None else _json(said)
    return f"{turn[role]}: {words}" + (f" {_json(others)}" if others else "")


def _json(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
