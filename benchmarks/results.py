"""What contracts for real data reach: a row of `docs/results.md` for each set.

The contracts lie in `benchmarks/results`. Each is trained by the command that a user gives, in a
process of its own, and its row is written as soon as it is measured: a run that is interrupted goes
on with the next set. A set is measured again when its contract has changed, or when it is named.

python benchmarks/results.py [--data FOLDER] [--threads 2] [--again] [SET ...]
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from page import measured_with
from real import FOLDER
from shakespeare import run_timed
from texts import MAKE_BASE, SETTINGS, WRITERS
from trainwright.core.files import hash_bytes, read_json, write_json
from trainwright.core.formatting import show_number

ROOT = Path(__file__).resolve().parents[1]
CONTRACTS = Path(__file__).resolve().parent / "results"
MEASURED = CONTRACTS / "measured.json"
PAGE = ROOT / "docs" / "results.md"
ORDER = (
    "airline",
    "telco",
    "california",
    "bike",
    "adult",
    "insteval",
    "etth1",
    "parkinsons",
    "sms-spam",
    "banking77",
    "emoji",
    "fashion",
)
"""The sets, from the quickest on."""

Row = Mapping[str, Any]

HEAD = """\
# Results on real data

`python benchmarks/results.py`

One run of each contract in `benchmarks/results`, judged once, on test rows that nothing was chosen
by. Kinds of models and settings are the defaults of their kind, those of an example or, with
`kind: auto`, chosen on validation rows. The interval is that of 95% over the units of the data:
rows, queries of a ranking, blocks of origins of a forecast. The difference is the model minus the
best of the other baselines of the run (all but the dummy), paired over the same rows. The verdict
is that of `target: every_baseline`.
"""

NOTES = """\
CPU seconds are those of the whole command, from the start of the interpreter to the written report,
on two threads. The wall time is longer than on a quiet machine where the load, the mean number of
processes that wanted a core when the run began and when it ended, is above 2. So are the CPU
seconds of networks then, whose two threads wait for each other in a loop: `fashion` takes about 600
on a quiet machine ([benchmarks](benchmarks.md)).

`adult`, `banking77` and `fashion` are judged on their official test parts, `bike`, `etth1` and
`airline` on the newest times, `insteval` on students that the training has none of, `parkinsons` by
five folds of whole people, in the mean error of its two targets. `emoji` finds the name of a
picture among 353: two encoders from random weights beside a ridge regression from 16 x 16 pixels to
TF-IDF. `sms-spam` is a fifth of the messages, without 403 copies. The encoders of texts are BERTs
of 2 layers of width 128 that start from random weights and see the training rows alone; `linear`
beside them is TF-IDF with a linear model. Figures of these encoders and of the network for images
on a quiet machine stand in the [benchmarks](benchmarks.md#encoders-of-texts).

A difference of 0 is that of a choice that is the linear model itself. The forecasts of `airline`
are calibrated on the years 1955 to 1957, whose errors were smaller than those before and after: an
interval that is never narrowed holds what it says there, and costs a little more than it gives.
"""


def measure(name: str, data: Path, threads: int) -> Row:
    """Train and judge one set."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        (folder / "data").symlink_to(data.resolve())
        write_rows(name, data, folder)
        text = contract_of(name)
        (folder / "contract.yaml").write_text(text, encoding="utf-8")
        words = ["train", "contract.yaml", "--runs", str(folder / "runs"), "--run", "one", "--json"]
        program = "import sys; from trainwright.cli.main import main; sys.exit(main())"
        began = os.getloadavg()[0]
        took, _ = run_timed([sys.executable, "-c", program, *words], folder, threads)
        run = folder / "runs" / "one"
        judged, plan = read_json(run / "evaluation.json"), read_json(run / "plan.json")
        return {
            "name": name,
            "contract": hash_bytes(text.encode()),
            "commit": commit(),
            "measured": measured_with(["torch", "lightgbm", "scikit-learn"]),
            "cpu_seconds": round(took.cpu_seconds, 1),
            "wall_seconds": round(took.wall_seconds, 1),
            "load": [round(began, 1), round(os.getloadavg()[0], 1)],
            **row_of(judged, plan),
            **chosen_by(run),
        }


def row_of(judged: Mapping[str, Any], plan: Mapping[str, Any]) -> dict[str, Any]:
    """What a row shows of an evaluation and a plan."""
    evaluation, contract = judged["evaluation"], plan["contract"]
    metric = contract["metric"]["name"]
    others = {name: one for name, one in evaluation["gains"].items() if name != "dummy"}
    values = {name: evaluation["baselines"][name][metric]["value"] for name in others}
    higher = metric in ("accuracy", "roc_auc", "ndcg", "image_to_text_recall_at_1")
    best = sorted(values, key=lambda name: values[name], reverse=higher)[0]
    return {
        "metric": metric,
        "model": contract["model"]["kind"],
        "rows": [plan["estimate"]["train_rows"], evaluation["rows"], evaluation["units"]],
        "value": evaluation["metrics"][metric],
        "baseline": best,
        "of_baseline": values[best],
        "gain": others[best][metric],
        "coverage": evaluation["metrics"].get("coverage"),
        "verdict": judged["verdict"]["status"],
    }


def chosen_by(run: Path) -> dict[str, Any]:
    """The candidate that a selection has kept."""
    ladder = run / "ladder.json"
    return {"model": f"auto: {read_json(ladder)['chosen']}"} if ladder.is_file() else {}


def write_rows(name: str, data: Path, folder: Path) -> None:
    """Rows, tokenizer and configuration of an encoder of texts, for sets that have one; the two
    tables of `emoji`."""
    if name == "emoji":
        write_emoji(data, folder)
    for setting in SETTINGS:
        if setting.name == name:
            WRITERS[name](data, folder)
            texts = pl.read_csv(folder / "train.csv")["text"].to_list()
            write_base = runpy.run_path(str(MAKE_BASE))["write_base"]
            write_base(texts, folder / "base", setting.layers, setting.width)


def write_emoji(data: Path, folder: Path) -> None:
    """Pictures without skin tones. A fifth, by the MD5 of the path, is for the test."""
    table = pl.read_csv(data / "emoji-captions" / "captions.csv")
    plain = table.filter(pl.col("skin_tone_variant") == 0).select("image", "caption", "group")
    fifths = [int(hashlib.md5(one.encode()).hexdigest(), 16) % 5 for one in plain["image"]]
    is_test = pl.Series(fifths) == 0
    plain.filter(~is_test).write_csv(folder / "pairs.csv")
    plain.filter(is_test).write_csv(folder / "test.csv")


def contract_of(name: str) -> str:
    """The text of a set's contract."""
    return (CONTRACTS / f"{name}.yaml").read_text(encoding="utf-8")


def commit() -> str:
    """The commit that is measured."""
    words = ["git", "-C", str(ROOT), "rev-parse", "--short=8", "HEAD"]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()


def read_measured() -> dict[str, Row]:
    """The rows that are measured, by set."""
    return read_json(MEASURED) if MEASURED.is_file() else {}


def is_measured(name: str, rows: Mapping[str, Row]) -> bool:
    """Is there a row of the contract as it stands?"""
    return name in rows and rows[name]["contract"] == hash_bytes(contract_of(name).encode())


def page_of(rows: Mapping[str, Row]) -> str:
    """The page."""
    table = [
        "| set | rows: training, test (units) | model | metric | test rows, 95% | best baseline "
        "| difference, 95% | verdict | CPU s | wall s (load) |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
        *(line_of(rows[name]) for name in ORDER if name in rows),
    ]
    covered = [
        f"The interval of `{name}` covers {shown(rows[name]['coverage'])} of its test forecasts; "
        "it says 0.8."
        for name in ORDER
        if name in rows and rows[name]["coverage"]
    ]
    missing = [f"`{name}`" for name in ORDER if name not in rows]
    without = [f"Without a row yet: {', '.join(missing)}."] if missing else []
    dates = sorted({str(row["measured"]) for row in rows.values()})
    parts = [HEAD, "\n".join(table), *without, *covered, NOTES, *dates]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def line_of(row: Row) -> str:
    """A line of the table."""
    train, test, units = row["rows"]
    of_units = f" ({units:,})" if units != test else ""
    cells = (
        row["name"],
        f"{train:,}, {test:,}{of_units}",
        f"`{row['model']}`",
        f"`{row['metric']}`",
        shown(row["value"]),
        f"{row['baseline']} {show_number(row['of_baseline'])}",
        shown(row["gain"]),
        row["verdict"],
        f"{row['cpu_seconds']:,.0f}",
        f"{row['wall_seconds']:,.0f} ({' to '.join(map(str, row['load']))})",
    )
    return f"| {' | '.join(cells)} |"


def shown(value: Mapping[str, Any]) -> str:
    """A value with its interval."""
    if value.get("low") is None:
        return show_number(value["value"])
    low, high = show_number(value["low"]), show_number(value["high"])
    return f"{show_number(value['value'])} ({low} to {high})"


def main(argv: Sequence[str] | None = None) -> None:
    """Measure the sets that have no row, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("sets", nargs="*", help="sets to measure; none: all without a row")
    parser.add_argument("--data", type=Path, default=FOLDER, help="the folder of the sets")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--again", action="store_true", help="measure sets that have a row too")
    given = parser.parse_args(argv)
    if unknown := set(given.sets) - set(ORDER):
        parser.error(f"no such set: {', '.join(sorted(unknown))}; there are {', '.join(ORDER)}")
    for name in given.sets or ORDER:
        if given.again or given.sets or not is_measured(name, read_measured()):
            row = measure(name, given.data, given.threads)
            print(json.dumps(row), flush=True)
            write_json(MEASURED, {**read_measured(), name: row})
            PAGE.write_text(page_of(read_measured()), encoding="utf-8")


if __name__ == "__main__":
    main()
