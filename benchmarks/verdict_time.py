"""The time to a verdict and its report, over that of a script by hand.

Every side is a process of its own, on the census example: a script with polars and LightGBM, early
stopping and the score of the test rows; `trainwright train` on data that it sees for the first
time, and on data that was looked at before; and `trainwright train` on 200 rows of it. The sides
take turns, in the other order every second round. Seconds are wall clock, CPU seconds those of all
threads; each is the least and the median of the rounds, and a ratio the median of those of the
rounds. With `--busy` the trees of the example are grown beside four processes that never rest, and
compared with one thread that had the machine for itself; with `--large` `check` of a million rows
is compared with their training.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import final

import polars as pl

from page import goal, write_section
from scale import measure as measure_size
from trainwright.data.base.row_storage import spread_rows

ROOT = Path(__file__).resolve().parents[1]
EXAMPLE = ROOT / "examples" / "income"
HERE = ROOT / "benchmarks" / "verdicts"
COMMAND = (sys.executable, "-m", "trainwright", "train")
ROUNDS, BUSY, SMALL, LARGE = 5, 4, 200, 1_000_000
MOST = {"first": 1.5, "again": 1.2}
MOST_CPU_SECONDS, MOST_BUSY, MOST_OF_TRAINING = 5.0, 3.0, 0.2
SIDES = {
    "script": "script by hand",
    "first": "income, seen for the first time",
    "again": "income, looked at before",
    "small": f"{SMALL} rows",
}
SMALL_CONTRACT = """
data: {path: small.csv, target: income, exclude: [fnlwgt, education]}
model: {kind: boosting}
metric: {name: roc_auc, target: 0.8}
"""
_MET = (0, 3)


@final
@dataclass(frozen=True)
class Took:
    """Seconds of a process, and those of its processors."""

    seconds: float
    cpu_seconds: float


@final
@dataclass(frozen=True)
class Trees:
    """Seconds of growing the trees with the threads that are chosen, and with one."""

    chosen: float
    one: float


@final
@dataclass(frozen=True)
class Found:
    """What was measured: each side in every round, trees on a quiet machine and beside busy
    processes, and the share of the training that `check` takes of many rows."""

    sides: Mapping[str, Sequence[Took]]
    quiet: Sequence[Trees] = ()
    busy: Sequence[Trees] = ()
    checked: Sequence[float] = field(default_factory=tuple)

    def ratio(self, side: str) -> float:
        """Median over the rounds of the time of a side over that of the script."""
        both = zip(self.sides[side], self.sides["script"], strict=True)
        return statistics.median(ours.seconds / script.seconds for ours, script in both)


def run_process(words: Sequence[str], folder: Path, cache: Path) -> Took:
    """Run a process to its end in a folder; a failure shows what it printed."""
    environment = {**os.environ, "TRAINWRIGHT_CACHE": str(cache), "PYTHONDONTWRITEBYTECODE": ""}
    output = folder / "output.txt"
    with output.open("w") as stream:
        started = time.perf_counter()
        process = subprocess.Popen(
            words, cwd=folder, env=environment, stdout=stream, stderr=subprocess.STDOUT
        )
        _, status, used = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in _MET:
        raise RuntimeError(f"{' '.join(words)}:\n{output.read_text()}")
    return Took(seconds, used.ru_utime + used.ru_stime)


def run_round(folder: Path, number: int) -> dict[str, Took]:
    """Each side once, forwards or backwards; what was looked at before follows the first look."""
    cache = folder / f"cache-{number}"
    command = (*COMMAND, str(folder / "contract.yaml"), "--runs", str(folder / "runs"))
    small = (*COMMAND, str(folder / "small.yaml"), "--runs", str(folder / "runs"))
    took: dict[str, Took] = {}

    def run_script() -> None:
        script = (sys.executable, str(HERE / "by_hand.py"), str(folder))
        took["script"] = run_process(script, folder, cache)

    def run_ours() -> None:
        took["first"] = run_process(command, folder, cache)
        took["again"] = run_process(command, folder, cache)

    def run_small() -> None:
        took["small"] = run_process(small, folder, cache)

    turns = (run_script, run_ours, run_small)
    for turn in turns if number % 2 == 0 else reversed(turns):
        turn()
    shutil.rmtree(cache)
    return {side: took[side] for side in SIDES}


def write_example(folder: Path) -> None:
    """The files of the example, and some of its rows with a contract."""
    for file in EXAMPLE.iterdir():
        if file.is_file():
            shutil.copy(file, folder)
    rows = pl.read_csv(EXAMPLE / "adult_train.csv.gz")
    rows[spread_rows(rows.height, SMALL)].write_csv(folder / "small.csv")
    (folder / "small.yaml").write_text(SMALL_CONTRACT)


def grow_trees() -> Trees:
    """Both ways in a process of their own."""
    words = (sys.executable, str(HERE / "trees.py"))
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    return Trees(**json.loads(done.stdout.splitlines()[-1]))


@contextmanager
def busy_processes(count: int) -> Iterator[None]:
    """So many processes that never rest, inside the block."""
    words = (sys.executable, "-c", "while True: pass")
    processes = [subprocess.Popen(words) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def measure(rounds: int, *, busy: bool, large: bool) -> Found:
    """All that is asked for. The first round warms up: it compiles and reads files."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_example(folder)
        measured = [run_round(folder, number) for number in range(rounds + 1)][1:]
    sides = {side: [one[side] for one in measured] for side in SIDES}
    quiet: list[Trees] = []
    beside: list[Trees] = []
    for _ in range(rounds if busy else 0):
        quiet.append(grow_trees())
        with busy_processes(BUSY):
            beside.append(grow_trees())
    checked = [measure_size("table", LARGE, 400).share("check")] if large else []
    return Found(sides, quiet, beside, checked)


def table(found: Found) -> str:
    """A row for each side, then what else was measured."""
    heads = ["side", "seconds", "CPU seconds", "of the script", "goal"]
    lines = [f"| {' | '.join(heads)} |", f"| {' | '.join('---' for _ in heads)} |"]
    for side, label in SIDES.items():
        took = found.sides[side]
        seconds, cpu = ([getattr(one, name) for one in took] for name in ("seconds", "cpu_seconds"))
        wanted = ""
        if side in MOST:
            wanted = goal(f"at most {MOST[side]}", found.ratio(side) <= MOST[side])
        elif side == "small":
            met = statistics.median(cpu) <= MOST_CPU_SECONDS
            wanted = goal(f"at most {MOST_CPU_SECONDS:g} CPU seconds", met)
        ratio = "" if side == "script" else f"{found.ratio(side):.2f}"
        lines.append(f"| {label} | {_show(seconds)} | {_show(cpu)} | {ratio} | {wanted} |")
    text = "\n".join(lines)
    if found.busy:
        one = statistics.median(trees.one for trees in found.quiet)
        ours, ours_busy, one_busy = (
            statistics.median(values)
            for values in (
                [trees.chosen for trees in found.quiet],
                [trees.chosen for trees in found.busy],
                [trees.one for trees in found.busy],
            )
        )
        wanted = goal(f"at most {MOST_BUSY:g}", ours_busy <= MOST_BUSY * one)
        text += (
            f"\n\nThe trees of the example take {ours:.2f} s with the threads that are chosen and "
            f"{one:.2f} s with one thread; beside {BUSY} busy processes {ours_busy:.2f} s and "
            f"{one_busy:.2f} s. That is {ours_busy / one:.1f} times one thread's quiet time "
            f"(goal: {wanted})."
        )
    for share in found.checked:
        wanted = goal(f"at most {MOST_OF_TRAINING:.0%}", share <= MOST_OF_TRAINING)
        text += (
            f"\n\n`check` of {LARGE:,} rows takes {share:.0%} of their training (goal: {wanted})."
        )
    return text


def _show(values: Sequence[float]) -> str:
    return f"{min(values):.1f} to {statistics.median(values):.1f}"


def main() -> None:
    """Measure, print, and write the section if that is asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write the section of the page")
    parser.add_argument("--busy", action="store_true", help="trees beside busy processes too")
    parser.add_argument("--large", action="store_true", help="check of a million rows too")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    given = parser.parse_args()
    text = table(measure(given.rounds, busy=given.busy, large=given.large))
    print(text)
    if given.write:
        about = " ".join((__doc__ or "").splitlines()[2:]).strip()
        text = (
            f"{about}\n\nSeconds are shown as least to median of {given.rounds} rounds.\n\n{text}"
        )
        packages = ["polars", "lightgbm", "scikit-learn", "scipy"]
        write_section("verdict_time", "The time to a verdict", text, packages)


if __name__ == "__main__":
    main()
