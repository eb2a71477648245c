"""`model: {kind: auto}` beside AutoGluon on real tables, with the same time and the same test rows.

Each table is divided once, as its contract says (70% train, 15% validation, 15% test; groups stay
together). Ours sees training and validation rows, and so does AutoGluon, which divides them itself.
What ours keeps is trained again on both (`training.refit`), as by `good_quality`.
Both get the same seconds and cores, one after the other. The difference is ours minus that of
AutoGluon in the contract's metric on the test rows, with its 95% interval over shared resamples;
"better" and "behind" are those whose interval does not hold 0. Disk is our bundle beside
AutoGluon's clone for deployment, latency the median of one row predicted from memory. `make automl`
installs AutoGluon into an environment of its own.

With `--tables FOLDER` (written by `proposals/tables.py`) ten further tables follow: of the first
set of `proposals/labels.csv` the largest with at most 50,000 rows that are independent or in
groups, one pair a table, with the split, excluded columns and metric that `trainwright init`
proposes.

With `--keep FOLDER`, what AutoGluon predicted stays there, and is read again where table, preset,
seconds, cores and rows are the same: then only ours is trained.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import final

import numpy as np
import polars as pl
from ruamel.yaml import YAML

from page import write_section
from proposals import find_tables, run_command
from qualities.sets import TARGETS, read_set
from real import FOLDER
from trainwright.contract.sections.metric import METRICS, Metric
from trainwright.core.files import hash_bytes, read_json
from trainwright.core.formatting import show_number
from trainwright.data.base.inputs import Floats, Integers
from trainwright.data.base.row_storage import spread_rows
from trainwright.evaluation.candidates.compare_candidates import (
    ComparedRows,
    ComparedScore,
    compare_candidates,
)
from trainwright.predictor.bundle import read_bundle
from trainwright.predictor.latency import measure_megabytes
from trainwright.run.judging.write_predictions import ScoredRows, read_predictions
from trainwright.run.request import Request
from trainwright.run.screen import StreamScreen
from trainwright.run.train import train
from trainwright.tracking.run_folder import RunFolder

PEER = Path(__file__).resolve().parents[1] / ".venv-automl" / "bin" / "python"
CHILD = Path(__file__).resolve().parent / "automls" / "autogluon_child.py"
SECONDS, ROWS, CALLS, FURTHER = 120.0, 50_000, 50, 10
PROPOSED = ("exclude", "columns", "split", "positive", "missing_target")
PRESETS = ("medium_quality", "good_quality")
OURS, THEIRS = "ours", "AutoGluon"

MODEL = {"kind": "auto"}


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
    path: Path | None = None

    def read(self) -> pl.DataFrame:
        """Every column as text, without those that the contract excludes."""
        if self.path is not None:
            frame = pl.read_csv(self.path, infer_schema=False)
        elif self.name == "insteval":
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


def find_further(folder: Path) -> Iterator[Table]:
    """The ten further tables as `init` proposes them, without targets of very rare classes."""
    pairs = [
        (path, label["target"])
        for label, path in sorted(find_tables(folder), key=lambda pair: -int(pair[0]["rows"]))
        if label["set"] == "given" and label["structure"] in ("independent", "group")
        if int(label["rows"]) <= ROWS
    ]
    names: set[str] = set()
    for path, target in pairs:
        name = path.stem.partition("-")[2]
        if len(names) == FURTHER or name in names:
            continue
        with tempfile.TemporaryDirectory() as scratch:
            written = Path(scratch) / "contract.yaml"
            words = ("init", str(path), "--target", target, "-o", str(written))
            code, _, message = run_command(*words)
            if code:
                raise RuntimeError(f"{path}: {message}")
            contract = YAML(typ="safe").load(written)
        data = {key: contract["data"][key] for key in PROPOSED if key in contract["data"]}
        data["split"].pop("folds", None)  # one training each
        if "rare" not in data["split"]:
            names.add(name)
            group = data["split"].get("column", "")
            yield Table(name, contract["metric"]["name"], data, target, group, path)


@final
@dataclass(frozen=True)
class Side:
    """What one of the two took and kept: seconds to train, median milliseconds of a row, megabytes
    on disk, the name of the model."""

    seconds: float
    row_ms: float
    megabytes: float
    kept: str

    def cells(self) -> tuple[str, ...]:
        """As the page shows it."""
        return f"{self.seconds:.0f}", f"{self.row_ms:.1f}", f"{self.megabytes:.1f}", self.kept


@final
@dataclass(frozen=True)
class Pair:
    """Scores of one table's test rows by both, and what each took."""

    table: Table
    preset: str
    rows: int
    compared: Mapping[str, ComparedScore]
    ours: Side
    theirs: Side

    @property
    def word(self) -> str:
        """`better`, `level` or `behind`."""
        gain = self.compared[OURS].gain
        if gain.low <= 0 <= gain.high:
            return "level"
        rising = METRICS[self.table.metric].direction == "max"
        return "better" if (gain.value > 0) == rising else "behind"

    def cells(self) -> str:
        """The row of the page."""
        gain = self.compared[OURS].gain
        values = [show_number(self.compared[who].score.value) for who in (OURS, THEIRS)]
        difference = f"{show_number(gain.value)} ({gain.bounds})"
        what = (self.table.name, self.preset, f"{self.rows:,}", self.table.metric)
        sides = [f"{mine} / {other}" for mine, other in zip(*self._sides, strict=True)]
        return f"| {' | '.join((*what, *values, difference, self.word, *sides))} |"

    @property
    def _sides(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        return self.ours.cells(), self.theirs.cells()


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
        "training": {"refit": True},
        "budget": {"hours": seconds / 3600},
    }
    path = folder / "contract.yaml"
    path.write_text(json.dumps(document))
    return path


def compare_one(table: Table, given: argparse.Namespace) -> Iterator[Pair]:
    """Train ours on one table, and AutoGluon with each preset."""
    frame = table.read().drop_nulls(table.target or TARGETS[table.name])
    frame = frame[spread_rows(frame.height, min(given.rows, frame.height))]
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        contract = contract_of(table, frame, folder, given.seconds)
        started = time.perf_counter()
        run = train(
            Request(contract, runs=folder / "runs", name="one"), StreamScreen(io.StringIO())
        )
        seconds = time.perf_counter() - started
        judged = read_predictions(run.folder)
        ours = side_of(run.folder, frame[judged.rows[:CALLS]], seconds)
        answers = judged.answers
        rows = ComparedRows(answers.truth, judged.units, answers.positive)
        metric = Metric(name=table.metric)
        for preset in given.presets:
            theirs = run_peer(table, frame, judged.rows, folder, preset, given)
            scores = {OURS: answers.scores, THEIRS: peer_scores(judged, folder)}
            compared = compare_candidates(scores, rows, metric, 0, against=THEIRS)
            yield Pair(table, preset, len(rows), compared, ours, theirs)


def side_of(folder: RunFolder, rows: pl.DataFrame, seconds: float) -> Side:
    """What ours took: the bundle is read again, and predicts rows one at a time."""
    predictor, times = read_bundle(folder.bundle), []
    typed = pl.read_csv(io.BytesIO(rows.write_csv().encode()))
    for index in range(typed.height):
        started = time.perf_counter()
        predictor.predict(typed.slice(index, 1))
        times.append(time.perf_counter() - started)
    kept = str(read_json(folder.ladder)["chosen"])
    row_ms = 1000 * statistics.median(times)
    return Side(seconds, row_ms, measure_megabytes(folder.bundle), kept)


def run_peer(
    table: Table,
    frame: pl.DataFrame,
    tested: Integers,
    folder: Path,
    preset: str,
    given: argparse.Namespace,
) -> Side:
    """AutoGluon on all rows but the test rows; `predictions.csv` is written into the folder."""
    mask = np.zeros(frame.height, dtype=np.bool_)
    mask[tested] = True
    frame.filter(pl.Series(~mask)).write_csv(folder / "train.csv")
    frame[tested].write_csv(folder / "test.csv")
    asked = {
        "target": table.target or TARGETS[table.name],
        "metric": table.metric,
        "preset": preset,
        "seconds": given.seconds,
        "groups": table.group,
        "categorical": table.categorical,
        "cores": len(os.sched_getaffinity(0)),
        "calls": CALLS,
    }
    written = b"".join((folder / name).read_bytes() for name in ("train.csv", "test.csv"))
    key = hash_bytes(json.dumps(asked, sort_keys=True).encode() + written)[:16]
    kept = given.keep / f"{table.name}-{preset}-{key}" if given.keep else folder / preset
    if not (kept / "found.json").is_file():
        kept.mkdir(parents=True, exist_ok=True)
        (kept / "found.json").write_text(call_peer(asked, folder))
        shutil.copy(folder / "predictions.csv", kept)
    shutil.copy(kept / "predictions.csv", folder)
    found = read_json(kept / "found.json")
    return Side(found["seconds"], found["row_ms"], found["megabytes"], str(found["model"]))


def call_peer(asked: Mapping[str, object], folder: Path) -> str:
    """What AutoGluon printed of its run, JSON."""
    files = {name: str(folder / f"{name}.csv") for name in ("train", "test")}
    models = folder / "models"
    shutil.rmtree(models, ignore_errors=True)
    document = json.dumps({**asked, **files, "folder": str(folder)})
    ran = subprocess.run(
        [str(PEER), str(CHILD), document], capture_output=True, text=True, check=False
    )
    if ran.returncode:
        raise RuntimeError(f"AutoGluon failed: {document}: {ran.stderr[-2000:]}")
    return ran.stdout.strip().splitlines()[-1]


def peer_scores(ours: ScoredRows, folder: Path) -> Floats:
    """Scores of AutoGluon with the classes in the order of ours."""
    predicted = pl.read_csv(folder / "predictions.csv").rename(show_class)
    names = list(map(show_class, ours.target.classes)) or ["prediction"]
    return predicted.select(names).to_numpy().astype(np.float64)


def show_class(name: str) -> str:
    """The name of a class, of numbers alike for `1` and `1.0`."""
    try:
        return str(float(name))
    except ValueError:
        return name.strip()


HEAD = (
    "| table | AutoGluon's preset | test rows | metric | ours | AutoGluon | difference (95%) | "
    "ours is | s, ours / theirs | ms a row | MB | kept |"
)


def total_of(pairs: Sequence[Pair]) -> str:
    """On how many tables ours is at least as good, and ahead, for each preset."""
    lines = []
    for preset in dict.fromkeys(pair.preset for pair in pairs):
        words = [pair.word for pair in pairs if pair.preset == preset]
        level = len(words) - words.count("behind")
        lines.append(
            f"Beside `{preset}` ours is at least as good on {level} of {len(words)} tables (goal: "
            f"80%), ahead on {words.count('better')} (goal: 40%)."
        )
    return "\n\n".join(lines)


def parse_arguments() -> argparse.Namespace:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write the section of the page")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="budget of each side")
    parser.add_argument("--rows", type=int, default=ROWS, help="most rows of a table")
    parser.add_argument("--presets", nargs="+", default=PRESETS, help="presets of AutoGluon")
    parser.add_argument("--keep", type=Path, help="folder for what AutoGluon predicted")
    parser.add_argument("--tables", type=Path, help="folder with ten further tables")
    parser.add_argument("--only", nargs="*", help="these tables")
    return parser.parse_args()


def main() -> None:
    """Measure, print, and write the section if that is asked for."""
    given = parse_arguments()
    if not PEER.is_file():
        raise SystemExit("AutoGluon is not installed: make automl")
    print(HEAD, flush=True)
    lines, pairs = [HEAD, "| --- " * HEAD.count(" |") + "|"], []
    tables = [*TABLES.values(), *(find_further(given.tables.resolve()) if given.tables else ())]
    for table in tables:
        if given.only and table.name not in given.only:
            continue
        for pair in compare_one(table, given):
            lines.append(pair.cells())
            pairs.append(pair)
            print(lines[-1], flush=True)
    total = total_of(pairs)
    print(total)
    if given.write:
        about = " ".join((__doc__ or "").split("\n\n")[1].splitlines())
        cores = len(os.sched_getaffinity(0))
        how = (
            f"{given.seconds:g} seconds and {cores} core{'s' if cores > 1 else ''} for each side, "
            f"at most {given.rows:,} rows of a table."
        )
        rows = "\n".join(lines)
        packages = ["lightgbm", "xgboost-cpu", "catboost", "scikit-learn", "torch"]
        write_section(
            "automl", "A choice among models", f"{about}\n\n{how}\n\n{rows}\n\n{total}", packages
        )


if __name__ == "__main__":
    main()
