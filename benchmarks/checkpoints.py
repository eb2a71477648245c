"""What it costs to save and load a checkpoint safely, beside `torch.save` and `torch.load`.

All rows keep the same state: weights of a network and the two moments of AdamW, fp32. Ours copies
it, writes it, hashes every byte, forces every file to the disk and commits it; `torch.save` gets
the live tensors and forces nothing. Each of its saves is a new file, and the third last is removed,
as a run does that keeps two; ours keeps two as well, and writes over the files of the third last.
`torch.save` over one file again and again, which has no older one to go back to, is shown too. So
that it can be seen what forcing costs alone, `torch.save` is also forced to the disk, and
ours is also made without forcing, which no run does. The rows take turns, in a new order each
round, each when the disk has nothing left to do, and what is measured is wall time: the disk is
part of it. Each row is compared with the others of the same round. What is loaded
was just saved: it need not come from the disk.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from unittest import mock

import torch
from torch import Tensor

from page import goal, write_section
from trainwright.checkpoint.background import BackgroundCheckpoints
from trainwright.checkpoint.state import Snapshot
from trainwright.checkpoint.store import Checkpoints, CheckpointStore, Loaded

GOALS = {"save": 1.3, "stall": 0.05, "load": 500.0}
TENSORS = 32
PLAIN, FORCED = "torch.save", "torch.save, forced to the disk"
UNFORCED = "ours, not forced to the disk"
STALL, BEHIND = "ours, in the background: stall", "ours, in the background: until it is there"

State = dict[str, dict[str, Tensor]]


def made(mebibytes: int) -> State:
    """A third of it weights, two thirds the moments of an optimizer."""
    numbers = mebibytes * 2**20 // 4 // 3 // TENSORS
    draw = torch.Generator().manual_seed(0)
    names = {"model": ("weight",), "optimizer": ("exp_avg", "exp_avg_sq")}
    return {
        part: {
            f"{index}.{kind}": torch.rand(numbers, generator=draw)
            for index in range(TENSORS)
            for kind in kinds
        }
        for part, kinds in names.items()
    }


def timed(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def begin(store: CheckpointStore, state: State, step: int) -> None:
    """What the loop does of a save on the thread that trains."""
    with store.taking():
        parts = {part: Snapshot(tensors=tensors) for part, tensors in state.items()}
    store.save(step, parts, {})


def quiet() -> None:
    """Nothing of an earlier row is still on its way to the disk."""
    os.sync()


class Rounds:
    """The seconds of each row, one number a round."""

    def __init__(self, folder: Path, state: State) -> None:
        self.folder, self.state = folder, state
        self.sync = Checkpoints(folder / "sync", 1)
        self.unforced = Checkpoints(folder / "unforced", 1)
        self.background = BackgroundCheckpoints(Checkpoints(folder / "background", 1))
        self.seconds: dict[str, list[float]] = {}

    def once(self, step: int) -> None:
        rows: dict[str, Callable[[], object]] = {
            PLAIN: lambda: self._torch_save("plain", step, forced=False),
            FORCED: lambda: self._torch_save("forced", step, forced=True),
            "torch.save, over the same file": self._torch_save_over,
            "ours": lambda: begin(self.sync, self.state, step),
            UNFORCED: lambda: self._unforced(step),
            STALL: lambda: begin(self.background, self.state, step),
        }
        for name in (*rows, BEHIND):
            self.seconds.setdefault(name, [])
        for name in random.Random(step).sample(list(rows), len(rows)):
            quiet()
            self.seconds[name].append(timed(rows[name]))
            if name == STALL:
                self.seconds[BEHIND].append(timed(self._wait))
        begin(Checkpoints(self.folder / "loaded", 1), self.state, step)
        self.seconds.setdefault("load, verified", []).append(timed(self._load))
        self.seconds.setdefault("torch.load", []).append(timed(lambda: self._torch_load(step)))

    def _torch_save(self, row: str, step: int, *, forced: bool) -> None:
        folder = self.folder / f"{row}-{step}"
        folder.mkdir()
        with (folder / "state.pt").open("wb") as stream:
            torch.save(self.state, stream)
            if forced:
                stream.flush()
                os.fsync(stream.fileno())
        shutil.rmtree(self.folder / f"{row}-{step - 2}", ignore_errors=True)

    def _torch_save_over(self) -> None:
        torch.save(self.state, self.folder / "over.pt")

    def _unforced(self, step: int) -> None:
        with mock.patch.object(os, "fsync", return_value=None):
            begin(self.unforced, self.state, step)

    def _wait(self) -> None:
        self.background.settled(wait=True)

    def _load(self) -> None:
        found = Checkpoints(self.folder / "loaded", 1).newest_valid()
        assert isinstance(found, Loaded)
        assert not found.rejected

    def _torch_load(self, step: int) -> None:
        torch.load(self.folder / f"plain-{step}" / "state.pt", weights_only=True)


def ratio(over: Sequence[float], under: Sequence[float]) -> float:
    """The median of the rounds' ratios."""
    return statistics.median(a / b for a, b in zip(over, under, strict=True))


def report(seconds: dict[str, list[float]], mebibytes: int) -> str:
    """The table, and each figure beside its goal."""
    lines = ["| | min, median of the rounds (s) |", "| --- | --- |"]
    for name, taken in seconds.items():
        lines.append(f"| {name} | {min(taken):.3f}, {statistics.median(taken):.3f} |")
    save = ratio(seconds["ours"], seconds[PLAIN])
    forced = ratio(seconds["ours"], seconds[FORCED])
    unforced = ratio(seconds[UNFORCED], seconds[PLAIN])
    stall = ratio(seconds[STALL], seconds["ours"])
    rate = mebibytes * 2**20 / 1e6 / statistics.median(seconds["load, verified"])
    wanted = {
        "save": goal(f"at most {GOALS['save']}", save <= GOALS["save"]),
        "stall": goal(f"at most {GOALS['stall']:.0%}", stall <= GOALS["stall"]),
        "load": goal(f"at least {GOALS['load']:,.0f} MB/s", rate >= GOALS["load"]),
    }
    lines += [
        "",
        "| figure | measured | goal |",
        "| --- | --- | --- |",
        f"| a save over plain `torch.save` | {save:.2f} | {wanted['save']} |",
        f"| a save over `torch.save` that is forced to the disk | {forced:.2f} | |",
        f"| a save that is not forced over plain `torch.save` | {unforced:.2f} | |",
        f"| stall in the background over a save | {stall:.1%} | {wanted['stall']} |",
        f"| load with verification | {rate:,.0f} MB/s | {wanted['load']} |",
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mebibytes", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--folder", type=Path, help="where to write; a temporary one if left out")
    parser.add_argument("--write", action="store_true", help="write the section of the page")
    given = parser.parse_args()
    state = made(given.mebibytes)
    with (
        nullcontext(str(given.folder)) if given.folder else tempfile.TemporaryDirectory()
    ) as folder:
        rounds = Rounds(Path(folder), state)
        rounds.once(0)  # the first one asks for memory that the others use again
        rounds.seconds.clear()
        for step in range(1, given.rounds + 1):
            rounds.once(step)
    text = report(rounds.seconds, given.mebibytes)
    print(text)
    if given.write:
        about = (
            f"{__doc__.partition(chr(10) * 2)[2].strip()} {given.mebibytes} MiB, "
            f"{given.rounds} rounds, {torch.get_num_threads()} threads; the ratios are medians of "
            "the rounds' ratios."
        )
        write_section("checkpoints", "Checkpoints", f"{about}\n\n{text}")


if __name__ == "__main__":
    main()
