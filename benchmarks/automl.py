"""`model: {kind: auto}` beside AutoGluon on real tables, with the same time and the same test rows.

Each table is divided once, as its contract says (70% train, 15% validation, 15% test; groups stay
together). Ours sees training and validation rows, and so does AutoGluon, which divides them itself.
Both get the same seconds and cores, one after the other. The difference is ours minus that of
AutoGluon in the contract's metric on the test rows, with its 95% interval over shared resamples;
"better" and "behind" are those whose interval does not hold 0. `make automl` installs AutoGluon
into an environment of its own.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import final

import numpy as np
import polars as pl

from page import write_section
from qualities.sets import TARGETS, read_set
from real import FOLDER
from trainwright.contract.sections.metric import METRICS, Metric
from trainwright.core.files import read_json
from trainwright.core.formatting import show_number
from trainwright.data.base.storage.row_storage import spread_rows
from trainwright.data.base.table import Floats
from trainwright.evaluation.candidates.compare_candidates import (
    ComparedRows,
    ComparedScore,
    compare_candidates,
)
from trainwright.evaluation.clause import gain_status
from trainwright.run.judging.write_predictions import ScoredRows, read_predictions
from trainwright.run.request.run_request import Request
from trainwright.run.screen import StreamScreen
from trainwright.run.train import train

PEER = Path(__file__).resolve().parents[1] / ".venv-automl" / "bin" / "python"
CHILD = Path(__file__).resolve().parent / "automls" / "autogluon_child.py"
SECONDS, ROWS, PRESET = 120.0, 50_000, "good_quality"
OURS, THEIRS = "ours", "AutoGluon"

MODEL = {"kind": "auto", "ensemble": "always", "choice": "best"}


@final
@dataclass(frozen=True)
class Table:
    """A real table: its target, what its contract says of the data, its metric, and whether the
    target is a number."""

    name: str
    metric: str
    data: Mapping[str, object] = field(default_factory=dict)
    target: str = ""
    group: str = ""

    def read(self) -> pl.DataFrame:
        """Every column as text, without those that the contract excludes."""
        if self.name == "insteval":
            frame = pl.read_csv(FOLDER / "insteval-ratings" / "InstEval.csv", infer_schema=False)
        else:
            frame = read_set(self.name)
        return frame.drop([str(name) for name in self._excluded])

    @property
    def categorical(self) -> list[str]:
        """Columns of numbers that are categories."""
        columns = self.data.get("columns", {})
        assert isinstance(columns, Mapping)
        return [name for name, one in columns.items() if one == {"kind": "categorical"}]

    @property
    def _excluded(self) -> Sequence[object]:
        excluded = self.data.get("exclude", ())
        assert isinstance(excluded, Sequence)
        return excluded


TABLES = {
    table.name: table
    for table in (
        Table("penguins", "f1_macro"),
        Table("titanic", "roc_auc", {"exclude": ["PassengerId", "Name", "Ticket"]}),
        Table("telco", "roc_auc", {"exclude": ["customerID"]}),
        Table("adult", "roc_auc", {"exclude": ["fnlwgt"]}),
        Table("elec2", "roc_auc"),
        Table("sms", "roc_auc", {"columns": {"text": {"kind": "text"}}}),
        Table("california", "rmse"),
        Table("bike", "rmse", {"exclude": ["instant", "dteday", "casual", "registered"]}),
        Table(
            "parkinsons",
            "rmse",
            {"exclude": ["motor_UPDRS"], "split": {"kind": "group", "column": "subject#"}},
            group="subject#",
        ),
        Table(
            "insteval",
            "rmse",
            {
                "exclude": ["rownames"],
                "columns": {name: {"kind": "categorical"} for name in ("s", "d", "dept")},
            },
            target="y",
        ),
    )
}


@final
@dataclass(frozen=True)
class Pair:
    """Scores of one table's test rows by both, and what each kept."""

    table: Table
    rows: int
    compared: Mapping[str, ComparedScore]
    seconds: Mapping[str, float]
    kept: Mapping[str, str]

    @property
    def word(self) -> str:
        """`better`, `level` or `behind`."""
        gain = self.compared[OURS].gain
        status = gain_status(gain, METRICS[self.table.metric].direction)
        return {"met": "better", "missed": "behind"}.get(status, "level")

    def cells(self) -> str:
        """The row of the page."""
        gain = self.compared[OURS].gain
        values = [show_number(self.compared[who].score.value) for who in (OURS, THEIRS)]
        took = [f"{self.seconds[who]:.0f}" for who in (OURS, THEIRS)]
        shown = (
            self.table.name,
            f"{self.rows:,}",
            self.table.metric,
            *values,
            f"{show_number(gain.value)} ({gain.bounds})",
            self.word,
            *took,
            self.kept[OURS],
            self.kept[THEIRS],
        )
        return f"| {' | '.join(shown)} |"


def contract_of(table: Table, frame: pl.DataFrame, folder: Path, seconds: float) -> Path:
    """The contract of ours, with its rows beside it."""
    frame.write_csv(folder / "rows.csv")
    data = {key: value for key, value in table.data.items() if key != "exclude"}
    target = table.target or TARGETS[table.name]
    document = {
        "task": "regression" if table.metric == "rmse" else "classification",
        "data": {"path": "rows.csv", "target": target, **data},
        "model": MODEL,
        "metric": {"name": table.metric},
        "budget": {"hours": seconds / 3600},
    }
    path = folder / "contract.yaml"
    path.write_text(json.dumps(document))
    return path


def compare_one(table: Table, seconds: float, most_rows: int, preset: str) -> Pair:
    """Train both on one table."""
    frame = table.read()
    frame = frame[spread_rows(frame.height, min(most_rows, frame.height))]
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        contract = contract_of(table, frame, folder, seconds)
        started = time.perf_counter()
        run = train(
            Request(contract, runs=folder / "runs", name="one"), StreamScreen(io.StringIO())
        )
        ours = time.perf_counter() - started
        judged = read_predictions(run.folder)
        kept = str(read_json(run.folder.ladder)["chosen"])
        theirs = run_peer(table, frame, judged.rows, folder, seconds, preset)
        answers = judged.answers
        scores = {OURS: answers.scores, THEIRS: peer_scores(judged, folder)}
        rows = ComparedRows(answers.truth, judged.units, answers.positive)
        metric = Metric(name=table.metric)
        compared = compare_candidates(scores, rows, metric, 0, against=THEIRS)
    return Pair(
        table,
        len(rows),
        compared,
        {OURS: ours, THEIRS: float(str(theirs["seconds"]))},
        {OURS: kept, THEIRS: str(theirs["model"])},
    )


def run_peer(
    table: Table,
    frame: pl.DataFrame,
    tested: Floats,
    folder: Path,
    seconds: float,
    preset: str,
) -> Mapping[str, object]:
    """AutoGluon on all rows but the test rows."""
    mask = np.zeros(frame.height, dtype=np.bool_)
    mask[tested] = True
    frame.filter(pl.Series(~mask)).write_csv(folder / "train.csv")
    frame[tested].write_csv(folder / "test.csv")
    asked = {
        "train": str(folder / "train.csv"),
        "test": str(folder / "test.csv"),
        "target": table.target or TARGETS[table.name],
        "metric": table.metric,
        "preset": preset,
        "seconds": seconds,
        "folder": str(folder),
        "groups": table.group,
        "categorical": table.categorical,
        "cores": len(os.sched_getaffinity(0)),
    }
    ran = subprocess.run(
        [str(PEER), str(CHILD), json.dumps(asked)], capture_output=True, text=True, check=False
    )
    if ran.returncode:
        raise RuntimeError(f"AutoGluon failed on {table.name}: {ran.stderr[-2000:]}")
    found: Mapping[str, object] = json.loads(ran.stdout.strip().splitlines()[-1])
    return found


def peer_scores(ours: ScoredRows, folder: Path) -> Floats:
    """Scores of AutoGluon with the classes in the order of ours."""
    predicted = pl.read_csv(folder / "predictions.csv")
    names = ours.target.classes or ("prediction",)
    return predicted.select(names).to_numpy().astype(np.float64)


HEAD = (
    "| table | test rows | metric | ours | AutoGluon | difference (95%) | ours is | "
    "seconds, ours | seconds, AutoGluon | kept, ours | kept, AutoGluon |"
)


def main() -> None:
    """Measure, print, and write the section if that is asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write the section of the page")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="budget of each side")
    parser.add_argument("--rows", type=int, default=ROWS, help="most rows of a table")
    parser.add_argument("--preset", default=PRESET, help="preset of AutoGluon")
    parser.add_argument("--only", nargs="*", choices=tuple(TABLES), default=tuple(TABLES))
    given = parser.parse_args()
    if not PEER.is_file():
        raise SystemExit("AutoGluon is not installed: make automl")
    print(HEAD, flush=True)
    lines, words = [HEAD, "| --- " * HEAD.count(" |") + "|"], []
    for name in given.only:
        pair = compare_one(TABLES[name], given.seconds, given.rows, given.preset)
        lines.append(pair.cells())
        words.append(pair.word)
        print(lines[-1], flush=True)
    reached = len([word for word in words if word != "behind"])
    total = f"At least as good on {reached} of {len(words)} tables; the goal is three of four."
    print(total)
    if given.write:
        about = " ".join((__doc__ or "").splitlines()[2:]).strip()
        how = (
            f"{given.seconds:g} seconds and {len(os.sched_getaffinity(0))} cores for each side, at "
            f"most {given.rows:,} rows of a table, AutoGluon's preset `{given.preset}`."
        )
        table = "\n".join(lines)
        packages = ["lightgbm", "xgboost-cpu", "catboost", "scikit-learn", "torch"]
        write_section(
            "automl", "A choice among models", f"{about}\n\n{how}\n\n{table}\n\n{total}", packages
        )


if __name__ == "__main__":
    main()
