"""A first contract for whatever data there is: a table, images, or texts."""

from __future__ import annotations

import json
import re
from os.path import relpath
from pathlib import Path

import polars as pl

from trainwright.contract.data import Column, TableData
from trainwright.contract.secrets import refuse_secret
from trainwright.contract.sources import Reading
from trainwright.contract.tokens import TokenData
from trainwright.core.errors import DataMistake, Mistake, Problem
from trainwright.core.units import show_count
from trainwright.data.folders import is_pattern
from trainwright.data.formats import known_format
from trainwright.data.reading import read_table
from trainwright.data.sources import holds_table, read_source
from trainwright.data.stores import is_remote
from trainwright.data.tokens import read_tokens
from trainwright.data.wording import some
from trainwright.planner.first_numbers import with_numbers
from trainwright.planner.propose import Settings, comment, propose, scalar
from trainwright.planner.propose_images import are_images, propose_images

_MONTH = r"^\d{4}-\d{2}$"
_LOOKED_AT = 10_000
_NUMBERED = re.compile(r"column_[1-9][0-9]*")


_CHAT = "  reading: {nested: chat}  # a list of turns becomes a line 'role: content' for each"


def propose_contract(
    data: str, target: str, contract_folder: Path, schema: str = "", text: str = ""
) -> str:
    """Look at data with the default settings and propose a contract for it, which is to be written
    into `contract_folder`. `data` is a path or a URL; `target` the column to predict, `text` the
    column of a table whose texts are learned as tokens.

    Raises:
        DataMistake: the data cannot be trained on as it is, or nobody said what to predict.
    """
    refuse_secret(data, "DATA")
    folder, found, written = located(data, contract_folder)
    place = folder / found
    if text:
        return _for_texts(folder, found, written, text)
    if not is_remote(data) and are_images(place):
        return propose_images(place, target, contract_folder)
    if target:
        return _for_table(folder, found, written, target, schema)
    if is_table(data, place):
        raise DataMistake(_no_target(found, folder))
    return _for_texts(folder, found, written, text)


def located(data: str, contract_folder: Path) -> tuple[Path, str, str]:
    """The folder and name to read, and what the contract calls it."""
    if is_remote(data):
        return Path(), data, data
    absolute = Path(data).absolute() if is_pattern(data) else Path(data).resolve()
    written = Path(relpath(absolute, contract_folder.resolve())).as_posix()
    if is_pattern(data):
        return contract_folder, written, written
    return absolute.parent, absolute.name, written


def is_table(data: str, place: Path) -> bool:
    """Whether data that is no images is a table rather than a text; `place` is where it lies."""
    if is_remote(data) or is_pattern(data):
        return True
    if place.is_dir():
        return holds_table(place)
    return bool(known_format(data))


def _no_target(found: str, folder: Path) -> Problem:
    columns = read_source(found, folder, "DATA", Reading(nested="text")).frame.columns
    return Problem(
        "nobody said which column to predict",
        path="--target",
        found=found,
        expected=f"one of: {some(columns, 12)}",
        fix="--target COLUMN, or --text COLUMN to learn the texts of a column as tokens",
    )


def _for_table(folder: Path, found: str, written: str, target: str, schema: str) -> str:
    reading, lines = with_numbers(folder, found, *how_to_read(folder, found, target))
    section = TableData(path=found, target=target, reading=reading, missing_target="drop")
    try:
        raw = read_table(section, folder)
    except DataMistake as mistake:
        columns = _only_columns(read_source(found, folder, "DATA", reading).frame, target)
        if not columns or not mistake.is_about("no_feature"):
            raise
        lines += ("  columns:", *(_column_line(name, each) for name, each in columns.items()))
        raw = read_table(section.model_copy(update={"columns": columns}), folder)
    if dropped := raw.facts.target.missing:
        what = f"the target is missing in {dropped} of {raw.facts.rows + dropped} rows"
        lines += (f"  missing_target: drop  # {what}: they are left out",)
    return propose(raw, written, target, Settings(schema, lines))


def _only_columns(frame: pl.DataFrame, target: str) -> dict[str, Column]:
    """What the columns are of a table that has no other: months, or texts."""
    found = {}
    for name in frame.columns:
        if name == target or frame.schema[name] != pl.String:
            continue
        values = frame[name].drop_nulls().head(_LOOKED_AT)
        if values.str.contains(_MONTH).all():
            found[name] = Column(kind="datetime", format="%Y-%m")
        elif len(values) and values.str.count_matches(r"\s+").to_numpy().mean() > 1:
            found[name] = Column(kind="text")
    return found


def _column_line(name: str, column: Column) -> str:
    if column.kind == "text":
        return f"    {scalar(name)}: {{kind: text}}  # free text, and there is no other column"
    form = json.dumps(column.format)
    return f"    {scalar(name)}: {{kind: datetime, format: {form}}}  # months without a day"


def how_to_read(folder: Path, found: str, target: str) -> tuple[Reading, tuple[str, ...]]:
    """The settings that a text needs, and their lines in the contract: without a header where the
    target is named by its number, and with quotes as text where they belong to no field."""
    reading, lines = Reading(), []
    if _NUMBERED.fullmatch(target) and _is_headless(folder, found, target):
        reading = reading.model_copy(update={"header": False})
        lines.append("    header: false  # the target is named by its number")
    if _is_nested(folder, found, reading):
        reading = reading.model_copy(update={"nested": "text"})
        lines.append("    nested: text  # lists and objects become their JSON")
    try:
        read_source(found, folder, "DATA", reading)
    except Mistake as mistake:
        if not mistake.is_about("broken_quotes"):
            raise
        reading = reading.model_copy(update={"quotes": "none"})
        lines.append("    quotes: none  # a quote is part of the text: some do not end")
    return reading, ("  reading:", *lines) if lines else ()


def _is_nested(folder: Path, found: str, reading: Reading, column: str = "") -> bool:
    """Whether rows hold lists or objects: any of them in lines of JSON, or those of a column."""
    try:
        frame = read_source(found, folder, "DATA", reading).frame
    except Mistake as mistake:
        return mistake.is_about("nested_values")
    return column in frame.columns and frame.schema[column].is_nested()


def _is_headless(folder: Path, found: str, target: str) -> bool:
    try:
        return target not in read_source(found, folder, "DATA").frame.columns
    except Mistake:
        return True


def _for_texts(folder: Path, found: str, written: str, text: str) -> str:
    reading = Reading()
    if text and _is_nested(folder, found, reading, text):
        reading = Reading(nested="chat")
    section = TokenData(kind="tokens", path=found, text=text, reading=reading)
    raw = read_tokens(section, folder)
    size = f"{show_count(raw.facts.rows)} characters, {raw.text.vocabulary.size} of them different"
    return "\n".join(
        [
            f"# What a model of the texts in {comment(written)} must prove: {size}.",
            "task: generation",
            "data:",
            "  kind: tokens",
            f"  path: {scalar(written)}",
            *([f"  text: {scalar(text)}"] if text else []),
            *([_CHAT] if reading.nested == "chat" else []),
            "  vocabulary: characters  # or bytes, for many scripts",
            "model: {kind: gpt, layers: 4, heads: 4, width: 128, context: 64}",
            "metric:",
            "  name: nats_per_token",
            "  # target: 1.9  # the largest allowed; left out: better than every baseline",
            "seed: 0  # the same number gives the same windows and the same model",
            "",
        ]
    )
