"""The time of a step of ours and of others over that of a plain torch loop written by hand.

Every loop trains the same model from the same weights on the same rows with the same fused AdamW
and schedule in the same precision; before anything is measured, a few steps without shuffling must
leave them all with the weights of the plain loop. Then they take turns of a few steps, in a new
order each round, in one process on one thread, each in the middle of one long run: starting,
ending, epochs, validations and checkpoints do not count. Ours is `fit` with every part of a real
run: schedule, guard, stop rules, and the recorders of signals, windows and events. The others are
fed the fastest way that they take. What is measured is the processor time of the process; on a GPU
it is wall time.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import sys
from collections.abc import Mapping, Sequence
from typing import cast

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch

from loops import budget as budget_module
from loops.budget import Costs, budget
from loops.budget import table as budget_table
from loops.measure import OWN, PEERS, Contender, Row, measure, ratios
from loops.workloads import DEVICE, WORKLOADS, Precision, Setting
from page import show_seconds, write_section

Measured = Mapping[str, Sequence[Row]]
"""The rows of each workload."""

PACKAGES = ("accelerate", "lightning", "skorch", "transformers")


def table(measured: Measured) -> str:
    """A row for each loop, a column for each workload; the first row has the times."""
    names = list(measured)
    lines = [f"| loop | {' | '.join(names)} |", "| --- " * (len(names) + 1) + "|"]
    for place, row in enumerate(next(iter(measured.values()))):
        cells = [_cell(measured[name], place) for name in names]
        lines.append(f"| {row.contender} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(rows: Sequence[Row], place: int) -> str:
    row = rows[place]
    if row.problem:
        return row.problem
    if place == 0:
        least, median = min(row.seconds), statistics.median(row.seconds)
        return f"{show_seconds(least)}, {show_seconds(median)}"
    least, median = ratios(rows, row)
    return f"{least:.3f}, {median:.3f}"


def section(tables: Mapping[Setting, Measured], rounds: int) -> str:
    """The text of the page."""
    about = " ".join((__doc__ or "").splitlines()[2:]).strip()
    shown = next(iter(tables.values()))
    workloads = ", ".join(f"`{name}`: {WORKLOADS[name].what}" for name in shown)
    made = {name: WORKLOADS[name].rounds(rounds) for name in shown}
    fewer = "".join(f", of `{name}` {count}" for name, count in made.items() if count != rounds)
    parts = [
        about,
        "The first row is the time of a step (minimum, median); the others are over it: ratio of "
        "the minima, median of the rounds' ratios. `plain again` is the same loop once more: what "
        "differs no more than it does is noise. A plain loop without clipping computes no gradient "
        "norm; ours always does, because it is a signal.",
        f"One thread, {rounds} rounds{fewer}; {workloads}.",
    ]
    for setting, measured in tables.items():
        parts += [f"### {_title(setting)}", table(measured)]
    return "\n\n".join(parts)


def budget_text(costs: Costs) -> str:
    """The text of the page."""
    about = " ".join((budget_module.__doc__ or "").splitlines()[2:]).strip()
    what = (
        f"`tiny_mlp` ({WORKLOADS['tiny_mlp'].what}) in fp32 with clipping, one thread. Called by "
        "themselves parts find their code in the caches, which they do not within a step: that is "
        "what is left."
    )
    return f"{about}\n\n{budget_table(costs)}\n\n{what}"


def _title(setting: Setting) -> str:
    return f"{setting.precision}, accumulation {setting.accumulate}, {DEVICE}"


def as_json(tables: Mapping[Setting, Measured]) -> object:
    """Ratios of the minima and seconds, by setting, workload and loop."""
    return {
        _title(setting): {
            name: {
                row.contender: {"problem": row.problem}
                if row.problem
                else {"ratio": round(ratios(rows, row)[0], 4), "seconds": list(row.seconds)}
                for row in rows
            }
            for name, rows in measured.items()
        }
        for setting, measured in tables.items()
    }


def contenders(peers: Sequence[str]) -> list[Contender]:
    """Our own loops and those of the named packages."""
    return [*OWN, *(peer for peer in PEERS if peer.package in peers)]


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """What is asked for; everything in full without arguments."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print ratios and seconds as JSON")
    parser.add_argument("--write", action="store_true", help="write its section of the page")
    parser.add_argument("--rounds", type=int, default=16, help="rounds that are counted")
    parser.add_argument("--budget", action="store_true", help="take our tiny step apart instead")
    parser.add_argument("--only", nargs="+", choices=list(WORKLOADS), default=list(WORKLOADS))
    parser.add_argument("--peers", nargs="*", choices=PACKAGES, default=PACKAGES)
    parser.add_argument(
        "--precision", nargs="+", choices=("fp32", "bf16"), default=("fp32", "bf16")
    )
    parser.add_argument("--accumulate", nargs="+", type=int, default=(1, 4))
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> None:
    """Measure, print, and write if asked to."""
    given = parse(arguments)
    torch.set_num_threads(1)
    if given.budget:
        _take_apart(given)
    else:
        _compare(given)


def _take_apart(given: argparse.Namespace) -> None:
    costs = budget("tiny_mlp", given.rounds)
    print(json.dumps(dict(costs)) if given.json else budget_table(costs))
    if given.write:
        write_section("budget", "Where the microseconds of a step go", budget_text(costs))


def _compare(given: argparse.Namespace) -> None:
    tables: dict[Setting, dict[str, list[Row]]] = {}
    for precision, accumulate in itertools.product(given.precision, given.accumulate):
        setting = Setting(cast(Precision, precision), accumulate)
        tables[setting] = {
            name: measure(name, setting, contenders(given.peers), work.rounds(given.rounds))
            for name, work in WORKLOADS.items()
            if name in given.only
        }
        if not given.json:
            print(f"\n{_title(setting)}\n\n{table(tables[setting])}", flush=True)
    if given.json:
        print(json.dumps(as_json(tables)))
    if given.write:
        gpus = [torch.cuda.get_device_name()] if DEVICE == "cuda" else []
        name = "loop_cuda" if gpus else "loop"
        title = "The loop on a GPU" if gpus else "The loop"
        write_section(name, title, section(tables, given.rounds), ("torch", *PACKAGES), gpus)


if __name__ == "__main__":
    main(sys.argv[1:])
