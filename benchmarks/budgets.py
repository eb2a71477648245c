"""Budgets of five kinds of data while other processes never rest.

Each contract is trained by the command that a user gives. Measured are its wall-clock time over the
budget (goal: at most 110%), its exit code (0 or 3: a verdict) and whether its schedule ended.

python benchmarks/budgets.py [--data FOLDER] [--busy 4] [--only NAME ...] [--write]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from page import goal, write_section
from real import FOLDER
from results import write_rows
from verdict_time import busy_processes

MOST = 1.10

TEXT: Mapping[str, Any] = {
    "task": "classification",
    "data": {
        "train_path": "train.csv",
        "test_path": "test.csv",
        "target": "label",
        "positive": "spam",
        "columns": {"text": {"kind": "text"}},
    },
    "model": {"kind": "auto"},
    "metric": {"name": "roc_auc", "target": "every_baseline"},
}
TABLE: Mapping[str, Any] = {
    "task": "classification",
    "data": {
        "path": "data/telco-churn/Telco-Customer-Churn.csv",
        "target": "Churn",
        "positive": "Yes",
        "exclude": ["customerID"],
    },
    "model": {"kind": "auto"},
    "metric": {"name": "roc_auc", "target": "every_baseline"},
}
IMAGES: Mapping[str, Any] = {
    "task": "classification",
    "data": {"kind": "images", "path": "data/fashion-mnist", "validation": 0.1},
    "model": {"kind": "resnet", "width": 16},
    "metric": {"name": "accuracy", "target": "every_baseline"},
}
LETTERS: Mapping[str, Any] = {
    "task": "generation",
    "data": {
        "kind": "tokens",
        "path": "data/tinyshakespeare/input.txt",
        "vocabulary": "characters",
    },
    "model": {"kind": "gpt", "layers": 2, "heads": 4, "width": 64, "context": 64},
    "metric": {"name": "perplexity", "target": "every_baseline"},
}
SERIES: Mapping[str, Any] = {
    "task": "forecasting",
    "data": {
        "kind": "series",
        "path": "data/etth1/ETTh1.csv",
        "target": "OT",
        "time": "date",
        "horizon": 24,
        "validation_steps": 2880,
        "test_steps": 2880,
    },
    "model": {"kind": "boosting"},
    "metric": {"name": "mase", "target": "every_baseline"},
}
BUDGETS: Mapping[str, tuple[int, Mapping[str, Any]]] = {
    "a table, `auto`": (120, TABLE),
    "texts, `auto`": (90, TEXT),
    "images, `resnet`": (150, IMAGES),
    "letters, `gpt`": (90, LETTERS),
    "a series, `boosting`": (72, SERIES),
}


@dataclass(frozen=True)
class Ended:
    """How a command ended, and what it said of its training."""

    seconds: float
    code: int
    told: Sequence[str]


def train(contract: Mapping[str, Any], seconds: int, data: Path) -> Ended:
    """Run the contract with this budget in a folder of its own."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "data").symlink_to(data)
        write_rows("sms-spam", data, folder)
        whole = {"name": "budget", **contract, "budget": {"hours": seconds / 3600}}
        (folder / "contract.yaml").write_text(json.dumps(whole), encoding="utf-8")
        words = [sys.executable, "-m", "trainwright", "train", "contract.yaml"]
        environment = {**os.environ, "TRAINWRIGHT_CACHE": str(folder / "cache")}
        started = time.perf_counter()
        done = subprocess.run(
            words, cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
        lines = (done.stdout + done.stderr).splitlines()
        return Ended(time.perf_counter() - started, done.returncode, lines)


def row(name: str, seconds: int, ended: Ended) -> str:
    """A row of the table."""
    share = ended.seconds / seconds
    is_judged = ended.code in (0, 3)
    is_cut = any("before its schedule ended" in line for line in ended.told)
    trained = next((line for line in ended.told if line.startswith("trained")), "")
    cells = (
        name,
        f"{seconds} s",
        f"{ended.seconds:.0f} s",
        goal(f"{share:.0%}", share <= MOST),
        goal(str(ended.code), is_judged),
        goal("cut" if is_cut else "ended", is_judged and not is_cut),
        trained.removeprefix("trained").strip(),
    )
    return f"| {' | '.join(cells)} |"


def main(argv: Sequence[str] | None = None) -> None:
    """See the module docstring."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, default=FOLDER)
    parser.add_argument("--busy", type=int, default=4)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--write", action="store_true")
    asked = parser.parse_args(argv)
    rows = []
    for name, (seconds, contract) in BUDGETS.items():
        if asked.only and not any(one in name for one in asked.only):
            continue
        with busy_processes(asked.busy):
            ended = train(contract, seconds, asked.data)
        rows.append(row(name, seconds, ended))
        print(rows[-1], flush=True)
        print(json.dumps(ended.told[-25:], indent=1, ensure_ascii=False), file=sys.stderr)
    if asked.write:
        head = "| data | budget | took | of the budget | exit code | schedule | trained |"
        text = (
            f"Each contract is trained while {asked.busy} other processes never rest. Goals: at "
            f"most {MOST:.0%} of the budget, a verdict (exit code 0 or 3), and a schedule that "
            "ends.\n\n"
        )
        table = "\n".join([head, "| --- | --- | --- | --- | --- | --- | --- |", *rows])
        write_section("budgets", "Budgets on a busy machine", text + table)


if __name__ == "__main__":
    main()
