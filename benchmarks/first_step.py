"""The time from the start of the process to the first optimizer step.

A run is started by the command, as a person starts it, and ends behind its first step: contract and
data read, looked at and prepared, the run's folder, record and first checkpoint written; nothing is
kept from an earlier run. Beside it stands a process that only imports torch. Both take turns; what
is measured is the processor time of the process.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from page import goal, write_section

GOAL_SECONDS = 0.5

IMPORT = "import time, torch; print(time.process_time())"
FIRST_STEP = """
import os, sys, time
from importlib.abc import MetaPathFinder

class Watch(MetaPathFinder):
    # The step is wrapped when the run imports it, so that nothing is imported earlier than usual.
    def find_spec(self, name, path=None, target=None):
        if name != "trainwright.run.compose.compose_job":
            return None
        sys.meta_path.remove(self)
        from trainwright.engine.update.step import OptimizerStep
        make = OptimizerStep.__call__

        def first(self, work):
            make(self, work)
            print(time.process_time(), flush=True)
            os._exit(0)

        OptimizerStep.__call__ = first
        return None

sys.meta_path.insert(0, Watch())
from trainwright.cli.main import main
main()
"""

TABLE = """\
task: classification
data: {path: rows.csv, target: y}
model: {kind: mlp, hidden: [64, 32]}
"""
TEXT = """\
data: {kind: tokens, path: text.txt}
model: {kind: gpt, layers: 2, heads: 2, width: 64, context: 64}
"""


def write_projects(folder: Path) -> dict[str, Path]:
    """A contract with its data for each case."""
    draw = np.random.default_rng(0)
    numbers = draw.normal(size=(3000, 6))
    rows = [",".join(f"{value:.4f}" for value in row) for row in numbers]
    labels = ["yes" if row.sum() > 0 else "no" for row in numbers]
    lines = [f"{row},{label}" for row, label in zip(rows, labels, strict=True)]
    (folder / "rows.csv").write_text("\n".join(["a,b,c,d,e,f,y", *lines]) + "\n")
    words = np.array(["anna ", "bob ", "carla "])
    (folder / "text.txt").write_text("".join(words[draw.integers(0, 3, 20_000)]))
    contracts = {}
    for name, text in (("table", TABLE), ("text", TEXT)):
        contracts[name] = folder / f"{name}.yaml"
        contracts[name].write_text(text)
    return contracts


def seconds(folder: Path, cache: Path, *words: str) -> float:
    """What a process prints last on stdout. Modules are compiled once, as when they are installed;
    whoever works on the sources may have switched that off."""
    places = {"TRAINWRIGHT_CACHE": str(cache), "PYTHONPYCACHEPREFIX": f"{folder}/compiled"}
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **places}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    done = subprocess.run(
        [sys.executable, "-c", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    return float(done.stdout.splitlines()[-1])


def measure(rounds: int) -> Mapping[str, Sequence[float]]:
    """Seconds of each case in each round, each with a cache of its own; the first round, which
    reads the packages from the disk, is not counted."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        contracts = write_projects(folder)
        found: dict[str, list[float]] = {"import torch": [], **{case: [] for case in contracts}}
        for number in range(rounds + 1):
            for case, times in found.items():
                words, run = (IMPORT,), f"{case}-{number}"
                if case in contracts:
                    words = (FIRST_STEP, "train", str(contracts[case]), "--run", run)
                spent = seconds(folder, folder / "caches" / run, *words)
                if number:
                    times.append(spent)
        return found


def table(found: Mapping[str, Sequence[float]]) -> str:
    """A row for each case."""
    lines = ["| until | minimum, median | beyond torch | goal |", "| --- | --- | --- | --- |"]
    torch = found["import torch"]
    for case, times in found.items():
        shown = f"{min(times):.2f}, {statistics.median(times):.2f} s"
        if case == "import torch":
            lines.append(f"| torch is imported | {shown} | | |")
        else:
            beyond = min(times) - min(torch)
            wanted = goal(f"at most {GOAL_SECONDS} s", beyond <= GOAL_SECONDS)
            lines.append(f"| first step, {case} | {shown} | {beyond:.2f} s | {wanted} |")
    return "\n".join(lines)


def main() -> None:
    """Measure, print, and write the section if that is asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write the section of the page")
    parser.add_argument("--rounds", type=int, default=7, help="rounds that are counted")
    given = parser.parse_args()
    found = measure(given.rounds)
    print(table(found))
    if given.write:
        about = " ".join((__doc__ or "").splitlines()[2:]).strip()
        text = f"{about}\n\n{table(found)}\n\nOne thread, {given.rounds} rounds."
        write_section("first_step", "The first step", text)


if __name__ == "__main__":
    main()
