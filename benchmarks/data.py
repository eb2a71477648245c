"""How fast batches come, beside the ways that people write, and what preparing a table costs.

Ours and the others take turns in one process on one thread, in a new order each round; what is
measured is the processor time of the process, and each is compared with ours of the same round.
Nothing is done with the batches. All are shuffled.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch

from batches import adult, contract_table, ways
from batches.ways import Case
from page import goal, show_seconds, write_section
from real import FOLDER

DATA = FOLDER / "fashion-mnist"
CASES = ("rows", "tokens", "images", "adult", "resume", "stream", "table")
MOST_FOR_ADULT, MOST_FOR_RESUME = 1.5, 1.2
MOST_MEGABYTES, GOAL_GIGABYTES = 50, 20

Seconds = Mapping[str, Sequence[float]]
"""Of each way, in each round."""


@dataclass(frozen=True)
class Line:
    """A row of the table: what ours is compared with, the ratio, and the goal."""

    case: str
    beside: str
    ours_seconds: float
    ratio: float
    goal: str
    met: bool


def timed(call: Callable[[], object]) -> float:
    started = time.process_time()
    call()
    return time.process_time() - started


def in_turns(calls: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """Seconds of each in each round, in a new order each round; the first round does not count."""
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    draw = random.Random(0)
    for number in range(rounds + 1):
        for name in draw.sample(list(calls), len(calls)):
            taken = timed(calls[name])
            if number:
                seconds[name].append(taken)
    return seconds


def ratio(seconds: Seconds, over: str, under: str) -> float:
    """The median of the rounds' ratios."""
    return statistics.median(a / b for a, b in zip(seconds[over], seconds[under], strict=True))


def exhaust(batches: ways.Batches, count: int) -> None:
    for _ in islice(batches, count):
        pass


def batch_lines(case: Case, rounds: int) -> list[Line]:
    """How many times as fast ours delivers as each of the others."""
    calls = {way.name: partial(exhaust, way.batches, case.turn) for way in case.ways}
    seconds = in_turns(calls, rounds)
    mine = statistics.median(seconds["ours"]) / case.turn
    return [
        Line(
            case.name,
            way.name,
            mine,
            found := ratio(seconds, way.name, "ours"),
            f"at least {way.goal:g}",
            found >= way.goal,
        )
        for way in case.ways[1:]
    ]


def adult_line(rounds: int) -> Line:
    """Preparing Adult, over polars and scikit-learn."""
    seconds = in_turns({"ours": adult.by_us(), "by hand": adult.by_hand()}, rounds)
    found = ratio(seconds, "ours", "by hand")
    return Line(
        "preparing Adult",
        "polars and scikit-learn",
        statistics.median(seconds["ours"]),
        found,
        f"at most {MOST_FOR_ADULT:g}",
        found <= MOST_FOR_ADULT,
    )


def resume_lines(rounds: int) -> list[Line]:
    """The next step at sample 10^9 over that at sample 0."""
    seconds = in_turns(ways.seeks(), rounds)
    lines = []
    for size in ("small", "large"):
        found = ratio(seconds, f"{size}, 10^9", f"{size}, 0")
        rows = ways.ROWS if size == "small" else 4 * ways.SEEK_TO
        lines.append(
            Line(
                "seek and next step at sample 10^9",
                f"at sample 0, {rows:,} rows",
                statistics.median(seconds[f"{size}, 10^9"]),
                found,
                f"at most {MOST_FOR_RESUME:g}",
                found <= MOST_FOR_RESUME,
            )
        )
    return lines


def streamed(gigabytes: float, folder: Path) -> str:
    """How far memory rises while generated Parquet becomes a row file and is trained on. Each phase
    is a process of its own."""
    script = [sys.executable, str(Path(__file__).with_name("batches") / "streaming.py")]
    places = ["--folder", str(folder)]
    path = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    run = partial(
        subprocess.run,
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    made = json.loads(run([*script, *places, "--gigabytes", str(gigabytes)]).stdout)
    found = json.loads(run([*script, *places, "--rows", str(made["rows"])]).stdout)
    growth = found["indexing_growth_mb"], found["epoch_growth_mb"]
    verdict = "met" if max(growth) <= MOST_MEGABYTES else "missed"
    return (
        f"Memory: {made['gigabytes']:.1f} GB of generated Parquet, {made['rows']:,} rows. Behind "
        "the first twentieth of each phase the resident memory of the process, mapped pages "
        f"included, rose by {growth[0]:.0f} MB while the row file was written "
        f"({found['indexing_seconds']:.0f} s) and by {growth[1]:.0f} MB over an epoch in blocks "
        f"({found['epoch_seconds']:.0f} s): at {made['gigabytes']:.1f} GB the goal of at "
        f"most {MOST_MEGABYTES} MB is {verdict}; it is for {GOAL_GIGABYTES} GB."
    )


def table(lines: Sequence[Line]) -> str:
    """Ratios: of batches the time of the others over ours, of the rest ours over the others."""
    shown = [
        "| what | beside | ours | ratio | goal |",
        "| --- | --- | --- | --- | --- |",
    ]
    for line in lines:
        shown.append(
            f"| {line.case} | {line.beside} | {show_seconds(line.ours_seconds)} "
            f"| {line.ratio:.2f} | {goal(line.goal, line.met)} |"
        )
    return "\n".join(shown)


def table_in_files(gigabytes: Sequence[float], folder: Path) -> str:
    """What memory a contract's table takes whose rows lie in files, at several sizes."""
    found = [
        contract_table.train(folder / str(size), int(size * 1e9 / contract_table.ROW_BYTES))
        for size in gigabytes
    ]
    said = ", ".join(
        f"{size:g} GB of numbers ({one.rows:,} rows) {one.anonymous_bytes / 1e6:.0f} MB "
        f"({one.seconds:.0f} s)"
        for size, one in zip(gigabytes, found, strict=True)
    )
    growth = (found[-1].anonymous_bytes - found[0].anonymous_bytes) / 1e6
    verdict = "met" if growth <= MOST_MEGABYTES else "missed"
    return (
        f"A contract's table with `rows_in: files`, from the first reading of its Parquet to the "
        f"verdict of a small network: the most memory of the process that no file stands for is, "
        f"at {said}. It rose by {growth:.0f} MB: the goal of at most {MOST_MEGABYTES} MB is "
        f"{verdict}."
    )


def measure(given: argparse.Namespace) -> tuple[list[Line], list[str], str]:
    """The lines of the table, what the batches are, and what was found of memory."""
    lines: list[Line] = []
    about: list[str] = []
    memory = ""
    with tempfile.TemporaryDirectory() as folder:
        cases: dict[str, Callable[[], Case]] = {
            "rows": ways.rows,
            "tokens": partial(ways.tokens, Path(folder)),
            "images": partial(ways.images, given.data),
        }
        for name in given.only:
            if name in cases:
                case = cases[name]()
                about.append(f"{case.name}: {case.what}")
                lines += batch_lines(case, given.rounds)
        if "adult" in given.only:
            lines.append(adult_line(given.rounds))
        if "resume" in given.only:
            lines += resume_lines(20 * given.rounds)
        if "stream" in given.only:
            memory = streamed(given.gigabytes, Path(folder))
        if "table" in given.only:
            in_files = table_in_files(given.table_gigabytes, Path(folder) / "table")
            memory = f"{memory}\n\n{in_files}" if memory else in_files
    return lines, about, memory


def main(arguments: Sequence[str]) -> None:
    """Measure, print, and write the section if that is asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print the ratios as JSON")
    parser.add_argument("--write", action="store_true", help="write its section of the page")
    parser.add_argument("--rounds", type=int, default=9, help="rounds that are counted")
    parser.add_argument("--data", type=Path, default=DATA, help="the folder of Fashion-MNIST")
    parser.add_argument(
        "--gigabytes", type=float, default=1.0, help="Parquet that is streamed; the goal is for 20"
    )
    parser.add_argument(
        "--table-gigabytes", nargs="+", type=float, default=(1.0, 4.0), help="of the contract's"
    )
    parser.add_argument("--only", nargs="+", choices=CASES, default=CASES)
    given = parser.parse_args(arguments)
    torch.set_num_threads(1)
    lines, about, memory = measure(given)
    if given.json:
        print(json.dumps({f"{line.case}, {line.beside}": line.ratio for line in lines}))
    else:
        print(f"{table(lines)}\n\n{memory}")
    if given.write:
        told = " ".join((__doc__ or "").splitlines()[2:]).strip()
        what = (
            "The ratio of batches is the time of the other way over ours, of preparing and of "
            f"resuming ours over the other. {given.rounds} rounds; {'; '.join(about)}."
        )
        text = f"{told}\n\n{table(lines)}\n\n{what}\n\n{memory}"
        write_section("data", "Batches", text, ("torch", "polars", "scikit-learn"))


if __name__ == "__main__":
    main(sys.argv[1:])
