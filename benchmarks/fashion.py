"""Time to accuracy of our Fashion-MNIST example: whole processes, one for each seed.

Of each run are shown the time of training after which the validation rows first had the accuracy,
validations and checkpoints included, the time of the whole process from the start of the
interpreter to the written report, and the accuracy on the 10,000 test images, which are opened
once, at the end.

python benchmarks/fashion.py [--data FOLDER] [--threads 2] [--seeds 0 1 2]
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from page import goal, write_section
from real import FOLDER
from shakespeare import run_timed
from trainwright.report.figures.time_to_target import time_validations
from trainwright.tracking.event_log import read_events

ROOT = Path(__file__).resolve().parents[1]
CONTRACT = ROOT / "examples" / "fashion" / "contract.yaml"
DATA = FOLDER / "fashion-mnist"
GOAL = 0.93


def run_seed(
    data: Path, folder: Path, threads: int, seed: int, overrides: Sequence[str] = ()
) -> dict[str, Any]:
    """One whole training."""
    program = "import sys; from trainwright.cli.main import main; sys.exit(main())"
    words = ["train", str(CONTRACT), "--runs", str(folder), "--run", "ours", "--json"]
    for override in (f"data.path={data.resolve()}", f"seed={seed}", *overrides):
        words += ["--set", override]
    took, out = run_timed([sys.executable, "-c", program, *words], folder, threads)
    scored = time_validations(read_events(folder / "ours" / "events.jsonl"), "val_accuracy")
    reached = next((one.seconds for one in scored if one.value >= GOAL), math.inf)
    return {
        "seed": seed,
        **took._asdict(),
        "training_seconds": scored[-1].seconds,
        "reached_seconds": reached if math.isfinite(reached) else None,
        "validation": scored[-1].value,
        "test": json.loads(out)["metrics"]["accuracy"]["value"],
    }


def show(rows: Sequence[Mapping[str, Any]]) -> str:
    """The table of the page."""
    lines = [
        f"| seed | to {GOAL:.0%} on validation rows | training | whole process "
        "| processor time | validation | test |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        seconds = row["reached_seconds"]
        lines.append(
            f"| {row['seed']} | {'not reached' if seconds is None else f'{seconds:.0f} s'} "
            f"| {row['training_seconds']:.0f} s | {row['wall_seconds']:.0f} s "
            f"| {row['cpu_seconds']:.0f} s | {row['validation']:.4f} | {row['test']:.4f} |"
        )
    mean = statistics.mean(row["test"] for row in rows)
    wanted = goal(f"goal: at least {GOAL:g}", mean >= GOAL)
    lines += ["", f"Mean test accuracy {mean:.4f} ({wanted})."]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--data", type=Path, default=DATA, help="the folder of the four files")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--json", action="store_true", help="print the numbers as JSON")
    parser.add_argument("--write", action="store_true", help="write the section of the page")
    wanted = parser.parse_args()
    rows = []
    for seed in wanted.seeds:
        with tempfile.TemporaryDirectory() as folder:
            rows.append(run_seed(wanted.data, Path(folder), wanted.threads, seed))
        print(rows[-1], file=sys.stderr)
    print(json.dumps({"rows": rows}) if wanted.json else show(rows))
    if wanted.write:
        told = " ".join((__doc__ or "").split("\n\n")[1].split())
        text = f"{told} {wanted.threads} threads.\n\n{show(rows)}"
        write_section("fashion", "Fashion-MNIST: time to accuracy", text)


if __name__ == "__main__":
    main()
