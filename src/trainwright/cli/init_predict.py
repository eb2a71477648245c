"""`init` and `predict`: verbs that write a file."""

from __future__ import annotations

import io
import os
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

import polars as pl

from trainwright.cli.arguments import NO_CLASSES, naming_damage
from trainwright.cli.render import screen_on_stderr, show_json
from trainwright.core.errors import Mistake, Problem
from trainwright.core.files import write_atomic, write_text
from trainwright.core.formatting import show_safely
from trainwright.planner.init.first_contract import propose_contract
from trainwright.planner.init.propose_search import add_search
from trainwright.run.after.evaluate_rows import Predictions, match_file, predict_file
from trainwright.run.run_context import Result
from trainwright.run.screen import labelled
from trainwright.tracking.run_folder import RunFolder

_STDOUT = Path("-")
_FORMULA = r"^[=+\-@\t\r]"
_NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"


@final
@dataclass(frozen=True, slots=True)
class InitRequest:
    """Data of a contract, the column to predict or to learn, overrides of the contract, and whether
    it searches over values of its model."""

    data: str
    target: str
    text: str
    overrides: Sequence[str] = ()
    base: str = ""
    tune: bool = False


def write_contract(wanted: InitRequest, output: Path, *, force: bool, as_json: bool) -> None:
    """Write a proposed contract; an existing one is overwritten only with `force`."""
    if output != _STDOUT and output.exists() and not force:
        raise Mistake(
            Problem(
                "a file is there already",
                found=str(output),
                expected="a name that is free",
                fix="choose another name with -o FILE, or write over it with --force",
            )
        )
    check_folder(output)
    folder = Path() if output == _STDOUT else output.parent
    text = propose_contract(
        wanted.data,
        wanted.target,
        folder,
        text=wanted.text,
        overrides=wanted.overrides,
        base=wanted.base,
    )
    if wanted.tune:
        text = add_search(text, folder, wanted.overrides)
    if output == _STDOUT:
        sys.stdout.write(text)
        return
    write_text(output, text)
    if as_json:
        show_json({"contract": str(output)})
        return
    name = show_safely(str(output))
    sys.stdout.write(f"wrote {name}\nnext: trainwright check {name}\n")
    sys.stdout.write(f"      trainwright {'tune' if wanted.tune else 'train'} {name}\n")


@final
@dataclass(frozen=True, slots=True)
class PredictionOutput:
    """Destination of predictions, input columns to keep, whether spreadsheet formulas are
    neutralised, for a model of image-text pairs the file of candidates, how many of them are given
    for each row, and the file of classes of a zero-shot classification; and columns that may be
    empty or unknown."""

    output: Path
    keep: Sequence[str] = ()
    guard_formulas: bool = False
    candidates: str = ""
    top: int = 1
    zero_shot: Path = NO_CLASSES
    allow_unknown: Sequence[str] = ()


def predict_to_file(
    folder: RunFolder,
    rows: str,
    wanted: PredictionOutput,
    overrides: Sequence[str],
    *,
    as_json: bool,
) -> None:
    """Predict and write, in the format given by the suffix of the output."""
    output = wanted.output
    kind = table_kind(output, "predictions") if output != _STDOUT else ".csv"
    if wanted.guard_formulas and kind != ".csv":
        raise Mistake(
            Problem(
                "formulas are guarded in CSV only",
                path="--guard-formulas",
                found=str(output),
                expected="a name that ends in .csv: cells of other formats are never formulas",
                fix=f"-o {output.stem}.csv, or leave out --guard-formulas",
            )
        )
    check_folder(output)
    with naming_damage(folder):
        if wanted.zero_shot != NO_CLASSES:
            predicted = _classes_of_images(folder, rows, wanted, overrides)
        elif wanted.candidates:
            predicted = match_file(folder, rows, wanted.candidates, wanted.top)
        else:
            predicted = predict_file(folder, rows, overrides, wanted.keep, wanted.allow_unknown)
    predictions = guard_formulas(predicted.frame) if wanted.guard_formulas else predicted.frame
    unknown = (
        f"{name!r} has in {count:,} of {predictions.height:,} rows what no training row has: a new "
        "category, or no value"
        for name, count in predicted.unseen.items()
    )
    for text in (*predicted.notes, *unknown):
        screen_on_stderr().say(labelled("note", text))
    if output == _STDOUT:
        text = predictions.write_csv()
        sys.stdout.write(show_safely(text) if sys.stdout.isatty() else text)
        return
    write_atomic(output, encode_table(predictions, kind))
    if as_json:
        unseen = dict(predicted.unseen)
        show_json({"rows": predictions.height, "output": str(output), "unseen": unseen})
    else:
        sys.stdout.write(show_safely(f"{predictions.height:,} predictions in {output}\n"))


def judge_zero_shot(
    folder: RunFolder, data: str, classes: Path, overrides: Sequence[str]
) -> Result:
    """As `evaluate_zero_shot`, which reads no file by settings."""
    from trainwright.run.after.classify_zero_shot import evaluate_zero_shot

    _refuse_beside("--set", bool(overrides))
    return evaluate_zero_shot(folder, data, classes)


def _classes_of_images(
    folder: RunFolder, images: str, wanted: PredictionOutput, overrides: Sequence[str]
) -> Predictions:
    from trainwright.run.after.classify_zero_shot import predict_zero_shot

    for option, is_given in (
        ("--candidates", wanted.candidates),
        ("--keep", wanted.keep),
        ("--set", overrides),
    ):
        _refuse_beside(option, bool(is_given))
    return Predictions(predict_zero_shot(folder, images, wanted.zero_shot), {})


def _refuse_beside(option: str, is_given: bool) -> None:
    if is_given:
        raise Mistake(
            Problem(
                f"{option} does not go with --zero-shot", path=option, fix=f"leave out {option}"
            )
        )


def table_kind(output: Path, what: str) -> str:
    """The format that the suffix of an output names.

    Raises:
        Mistake: it names none.
    """
    if output.suffix in (".csv", ".parquet", ".jsonl"):
        return output.suffix
    raise Mistake(
        Problem(
            f"{what} cannot be written so",
            found=str(output),
            expected="a name that ends in .csv, .parquet or .jsonl",
            fix=f"-o {output.stem}.csv",
        )
    )


def check_folder(output: Path) -> None:
    """Fail before the work if its result cannot be written."""
    folder = output.parent
    if output.is_dir():
        found, fix = f"{output}: a folder", "name a file in it"
    elif not folder.is_dir():
        found, fix = f"{folder}: no such folder", f"mkdir -p {shlex.quote(str(folder))}"
    elif not os.access(folder, os.W_OK | os.X_OK):
        found, fix = f"{folder}: permission denied", "choose another folder or change its rights"
    else:
        return
    raise Mistake(
        Problem(
            "the output cannot be written",
            path="-o",
            found=found,
            expected="a file in a folder in which this user may write",
            fix=fix,
        )
    )


def guard_formulas(frame: pl.DataFrame) -> pl.DataFrame:
    """`frame` with an apostrophe before every text that a spreadsheet would run as a formula, in
    column names too. Numbers are unchanged, also as text."""
    texts = frame.select(pl.col(pl.String, pl.Categorical, pl.Enum)).columns
    cells = frame.with_columns(_guarded(pl.col(name).cast(pl.String)) for name in texts)
    names = pl.DataFrame({"name": frame.columns}).select(_guarded(pl.col("name")))["name"]
    # Two columns with the same name would not be a valid table.
    return (
        cells.rename(dict(zip(frame.columns, names, strict=True)))
        if names.is_unique().all()
        else cells
    )


def _guarded(texts: pl.Expr) -> pl.Expr:
    runs = texts.str.contains(_FORMULA) & ~texts.str.contains(_NUMBER)
    return pl.when(runs).then(pl.concat_str(pl.lit("'"), texts)).otherwise(texts).name.keep()


def encode_table(frame: pl.DataFrame, kind: str) -> bytes:
    """A table in the format of `table_kind`."""
    stream = io.BytesIO()
    match kind:
        case ".csv":
            frame.write_csv(stream)
        case ".parquet":
            frame.write_parquet(stream)
        case _:
            frame.write_ndjson(stream)
    return stream.getvalue()
