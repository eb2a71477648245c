"""Rules on where rows come from, what happens to faults, and which rows an epoch visits."""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import get_close_matches
from typing import get_args

from trainwright.contract.document import Contract
from trainwright.contract.key_paths import as_key
from trainwright.contract.sections.data.data_traits import Balanced, Curriculum, Mixture, Uniform
from trainwright.contract.sections.data.quality import POSSIBLE, FindingKind
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
_PATH = "data.sampling"


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


def check_actions(
    _contract: Contract, data: TableData, _written: frozenset[str]
) -> Iterator[Problem]:
    """Every action can be done to what is found."""
    for name in data.quality.actions:
        if name not in get_args(FindingKind):
            close = get_close_matches(name, get_args(FindingKind), n=1, cutoff=0.5)
            yield Problem(
                "there is no such kind of finding",
                path=f"data.quality.actions.{name}",
                found=name,
                expected=f"one of: {', '.join(POSSIBLE)}",
                fix=f"did you mean {close[0]}?" if close else "choose one of them",
            )
    asked = data.quality.asked()
    for kind, action in asked.items():
        possible = POSSIBLE.get(kind, ("report",))
        if action not in possible:
            yield Problem(
                f"nothing can be done so to {kind}",
                path=f"data.quality.actions.{kind}",
                found=action,
                expected=", ".join(possible),
                fix="choose one of these, or remove the line",
            )
    slow: set[FindingKind] = {"near_duplicates", "mixed_units", "other_language", "label_error"}
    searched = [kind for kind, action in asked.items() if kind in slow and action != "report"]
    if searched and data.quality.look == "quick":
        yield Problem(
            "an action needs what a quick look leaves out",
            path="data.quality.look",
            found=f"quick, with an action for {', '.join(searched)}",
            expected="all",
            fix="remove data.quality.look, or these actions",
        )


def check_column_rules(
    _contract: Contract, data: TableData, _written: frozenset[str]
) -> Iterator[Problem]:
    """A range has its least number first, and a pattern is a regular expression."""
    for name, column in data.columns.items():
        if column.range != "any" and column.range[0] > column.range[1]:
            yield Problem(
                "no number is in this range",
                path=f"data.columns.{as_key(name)}.range",
                found=f"{column.range[0]:g} to {column.range[1]:g}",
                expected="the least number, then the largest",
                fix=f"write range: [{column.range[1]:.15g}, {column.range[0]:.15g}]",
            )
        try:
            re.compile(column.pattern)
        except (re.error, RecursionError, OverflowError) as error:
            yield Problem(
                "the pattern is not a regular expression",
                path=f"data.columns.{as_key(name)}.pattern",
                found=f"{column.pattern!r}: {error}",
                expected="a regular expression such as [A-Z]{2}[0-9]+",
                fix="correct it, or remove the line",
            )


QUALITY_RULES = (check_actions, check_column_rules)


def check_sampled(contract: Contract, _written: frozenset[str]) -> Iterator[Problem]:
    """The data and the model have what the sampling speaks of."""
    data, sampling = contract.data, contract.data.sampling
    if isinstance(sampling, Uniform):
        return
    remove = "remove data.sampling"
    if not contract.model.is_loop_trained:
        yield Problem(
            f"a model of kind {contract.model.kind} is fitted on all rows at once",
            path=_PATH,
            found=sampling.kind,
            expected="uniform, or a network",
            fix=remove,
        )
    elif sampling.kind not in data.samplings:
        *others, last = data.samplings
        yield Problem(
            data.sampling_limits,
            path=f"{_PATH}.kind",
            found=sampling.kind,
            expected=f"{', '.join(others)} or {last}" if others else last,
            fix=remove,
        )
    elif not data.shuffle:
        yield Problem(
            "rows that are drawn do not come as they lie",
            path="data.shuffle",
            found=f"false beside a sampling of kind {sampling.kind}",
            expected="one of the two",
            fix="remove shuffle",
        )


def check_balanced(contract: Contract, _written: frozenset[str]) -> Iterator[Problem]:
    """Only classes can be balanced."""
    if isinstance(contract.data.sampling, Balanced) and contract.task == "regression":
        yield Problem(
            "a target of numbers has no classes to balance",
            path=f"{_PATH}.kind",
            found="balanced",
            expected="another sampling for a regression",
            fix="choose weighted, with a column of weights",
        )


def no_source_column() -> Problem:
    """A mixture that does not name the column of its sources."""
    return Problem(
        "a mixture of rows needs the column that names their source",
        path=f"{_PATH}.column",
        fix="add for example column: source",
    )


def check_given_once(contract: Contract, written: frozenset[str]) -> Iterator[Problem]:
    """Shares and the end of a curriculum are given once."""
    match contract.data.sampling:
        case Mixture(weights=weights) if weights:
            pair = ("weights", "temperature")
        case Curriculum(samples=samples) if samples:
            pair = ("samples", "ratio")
        case _:
            return
    # Beside weights that are not empty, only a temperature can be one too many.
    if f"{_PATH}.{pair[1]}" in written:
        yield Problem(
            f"{pair[0]} stand in the place of {pair[1]}",
            path=f"{_PATH}.{pair[0]}",
            found="both",
            expected="one of the two",
            fix="remove one",
        )


def check_workers(contract: Contract, _written: frozenset[str]) -> Iterator[Problem]:
    """Who makes batches, makes them for a network."""
    workers, model = contract.data.num_workers, contract.model
    if workers not in ("auto", 0) and not model.is_loop_trained:
        yield Problem(
            f"a model of kind {model.kind} is fitted on all rows at once: there are no batches",
            path="data.num_workers",
            found=str(workers),
            expected="0 or auto",
            fix="remove num_workers",
        )


SAMPLING_RULES = (check_sampled, check_balanced, check_given_once, check_workers)
"""All of them, for the list of rules."""
