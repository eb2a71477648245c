"""Rules on where rows come from."""

from __future__ import annotations

import re
from collections.abc import Iterator

from trainwright.contract.document import Contract
from trainwright.contract.sections.data.sources import FRAME
from trainwright.contract.sections.data.table_data import TableData
from trainwright.core.errors import Problem

_FIRST_WORD = re.compile(r"(?:\s|--[^\n]*(?:\n|\Z)|/\*.*?\*/|\()*(\w*)", re.DOTALL)
"""Of a query, behind blanks, comments and brackets."""
_QUOTED = re.compile(
    r"""[eE]'(?:[^'\\]|\\.|'')*' | '[^']*' | "[^"]*" | `[^`]*` | \[[^\]]*\]
    | \$(\w*)\$.*?\$\1\$ | --[^\n]* | /\*.*?\*/""",
    re.DOTALL | re.VERBOSE,
)
"""What of a query is text, a name or a comment: a semicolon in it ends nothing."""
_READING = ("select", "with", "values", "table")
_DATABASES = ("sqlite", "postgresql", "postgres")


def one_source(_contract: Contract, data: TableData, _written: frozenset[str]) -> Iterator[Problem]:
    """Rows come from one place: a file that is divided, a training file that is named with what
    belongs to it, or a query."""
    named = [key for key in ("path", "train_path") if getattr(data, key)]
    named += ["sql"] if data.sql.url or data.sql.query else []
    if len(named) > 1:
        first, second = named[:2]
        yield Problem(
            f"data.{first} and data.{second} exclude each other",
            path=f"data.{second}",
            expected="path for rows to divide, train_path where other files go with it, or sql",
            fix="keep one of them",
        )
    elif not named:
        yield Problem(
            "the contract names no data",
            path="data",
            expected="path, train_path or sql",
            fix="add for example: path: data.csv",
        )
    for key, value in (("val_path", data.val_path), ("test_path", data.test_path)):
        if value and data.path and not data.train_path:
            yield Problem(
                f"data.{key} goes with data.train_path, not with data.path",
                path=f"data.{key}",
                expected="path alone, or train_path with val_path or test_path",
                fix="rename path to train_path",
            )


def query_is_whole(
    _contract: Contract, data: TableData, _written: frozenset[str]
) -> Iterator[Problem]:
    """A query has a database that is known here, and the database a query."""
    if not (data.sql.url or data.sql.query):
        return
    for key, value in (("url", data.sql.url), ("query", data.sql.query)):
        if not value.strip():
            yield Problem(
                f"data.sql has no {key}",
                path=f"data.sql.{key}",
                expected="url and query",
                fix="write both, for example url: sqlite:///shop.db and query: SELECT * FROM t",
            )
    yield from _reads_once(data.sql.query)
    scheme = data.sql.url.partition("://")[0]
    if data.sql.url.strip() and scheme not in _DATABASES:
        yield Problem(
            "nothing is known of such a database",
            path="data.sql.url",
            found=scheme[:40],
            expected="a URL that begins with sqlite:// or postgresql://",
            fix="export the rows to a file, or copy them into one of these",
        )


def _reads_once(query: str) -> Iterator[Problem]:
    """A query is one statement, which begins as one that reads."""
    first = _FIRST_WORD.match(query)
    word = first.group(1) if first else ""
    if query.strip() and word.lower() not in _READING:
        # ATTACH makes a file even where a database is opened for reading alone.
        yield Problem(
            "a query only reads",
            path="data.sql.query",
            found=word or query.strip()[:20],
            expected="a statement that begins with SELECT, WITH, VALUES or TABLE",
            fix="write SELECT ... FROM ...",
        )
    elif ";" in _QUOTED.sub(" ", query).rstrip("; \t\r\n"):
        yield Problem(
            "a query is one statement",
            path="data.sql.query",
            found="a semicolon with more behind it",
            expected="one SELECT",
            fix="remove what stands behind the semicolon: it would not be run",
        )


def separator_is_one_mark(contract: Contract, _written: frozenset[str]) -> Iterator[Problem]:
    """A delimiter is one character, neither a quote nor a line break; the encoding exists."""
    reading = contract.data.file_reading
    if reading.separator and (
        len(reading.separator.encode()) != 1 or reading.separator in '"\r\n\0'
    ):
        yield Problem(
            "a separator is one ASCII mark that is no quote and no line break",
            path="data.reading.separator",
            found=repr(reading.separator)[:40],
            fix='write for example ";" or "\\t"',
        )
    try:
        "".encode(reading.encoding)
    except (LookupError, ValueError):
        yield Problem(
            "there is no such encoding",
            path="data.reading.encoding",
            found=reading.encoding[:40],
            expected="a name that Python knows, for example utf-8, cp1252, latin-1 or utf-16",
            fix="correct the name",
        )


def frames_are_of_tables(contract: Contract, _written: frozenset[str]) -> Iterator[Problem]:
    """Frames from Python are tables."""
    data = contract.data
    if not data.reads_frames and data.source.startswith(FRAME):
        yield Problem(
            f"data of kind {data.kind} does not come from a frame",
            path="data.path",
            found=data.source,
            expected=f"{FRAME} only beside kind: table",
            fix="name files",
        )


SOURCE_RULES = (
    separator_is_one_mark,
    frames_are_of_tables,
)
"""All of them, for the list of rules."""
