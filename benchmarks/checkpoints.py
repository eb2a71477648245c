"""What it costs to save and load a checkpoint safely, beside `torch.save` and `torch.load`.

All rows keep the same state: weights of a network and the two moments of AdamW, fp32, while it is
trained on a small batch. Ours copies
it, writes it, hashes every byte, forces every file to the disk and commits it; `torch.save` gets
the live tensors and forces nothing. Each of its saves is a new file, and the third last is removed,
as a run does that keeps two; ours keeps two as well, and writes over the files of the third last.
`torch.save` over one file again and again, which has no older one to go back to, is shown too. So
that it can be seen what forcing costs alone, `torch.save` is also forced to the disk, and
ours is also made without forcing, which no run does. The rows take turns, in a new order each
round, each when the disk has nothing left to do, and what is measured is wall time: the disk is
part of it. Each row is compared with the others of the same round. What is loaded
was just saved: it need not come from the disk.

In the background the stall is all that a save keeps the training thread waiting: to begin it, and
at the fence before the update of the next step, where the copies must be complete. The step behind
a save is also shown as a whole, beside the same step without one, and its forward and backward pass
by itself: the copying takes bandwidth and a core from the passes, the writing from all that comes
after them, and that is a cost too.
"""

from __future__ import annotations

import argparse
import math
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
from torch import Tensor, nn

from page import goal, write_section
from trainwright.checkpoint.background_save import BackgroundCheckpoints
from trainwright.checkpoint.state import Snapshot
from trainwright.checkpoint.states.copy_fence import Fence
from trainwright.checkpoint.store import Checkpoints, CheckpointStore, Loaded
from trainwright.core.formatting import many

GOALS = {"save": 1.3, "stall": 0.05, "load": 500.0}
TENSORS = 32
PLAIN, FORCED = "torch.save", "torch.save, forced to the disk"
UNFORCED = "ours, not forced to the disk"
STALL, BEHIND = "ours, in the background: stall", "ours, in the background: until it is there"
WAIT = "ours, in the background: of it at the fence"
STEP, SAVED_STEP = "a training step", "a training step behind a save in the background"
PASSES, SAVED_PASSES = (
    "of it forward and backward",
    "of it forward and backward, while copies are made",
)

State = dict[str, dict[str, Tensor]]


class Training:
    """A network and its optimizer. A third of the state is weights, two thirds are moments."""

    def __init__(self, mebibytes: int, rows: int) -> None:
        side = math.isqrt(mebibytes * 2**20 // 4 // 3 // TENSORS)
        torch.manual_seed(0)
        self._network = nn.Sequential(*[nn.Linear(side, side, bias=False) for _ in range(TENSORS)])
        self._optimizer = torch.optim.AdamW(self._network.parameters(), fused=True)
        self._batch = torch.randn(rows, side)
        self.passes()
        self.update()
        named = dict(self._network.named_parameters())
        self.state: State = {
            "model": {name: weight.detach() for name, weight in named.items()},
            "optimizer": {
                f"{name}.{kind}": self._optimizer.state[weight][kind]
                for name, weight in named.items()
                for kind in ("exp_avg", "exp_avg_sq")
            },
        }
        tensors = (tensor for part in self.state.values() for tensor in part.values())
        self.size_bytes = sum(tensor.nbytes for tensor in tensors)

    def passes(self) -> None:
        self._optimizer.zero_grad()
        self._network(self._batch).square().mean().backward()

    def update(self) -> None:
        self._optimizer.step()


def timed(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def begin(store: CheckpointStore, state: State, step: int) -> None:
    """What the loop does of a save on the thread that trains."""
    with store.taking():
        parts = {part: Snapshot(tensors=one, updated=one) for part, one in state.items()}
    store.save(step, parts, {})


def quiet() -> None:
    """Nothing of an earlier row is still on its way to the disk."""
    os.sync()


class Rounds:
    """The seconds of each row, one number a round."""

    def __init__(self, folder: Path, training: Training) -> None:
        self.folder, self.training, self.state = folder, training, training.state
        self.fence = Fence()
        self.sync = Checkpoints(folder / "sync", 1)
        self.unforced = Checkpoints(folder / "unforced", 1)
        kept = Checkpoints(folder / "background", 1)
        self.background = BackgroundCheckpoints(kept, self.fence)
        self.seconds: dict[str, list[float]] = {}

    def once(self, step: int) -> None:
        rows: dict[str, Callable[[], object]] = {
            PLAIN: lambda: self._torch_save("plain", step, forced=False),
            FORCED: lambda: self._torch_save("forced", step, forced=True),
            "torch.save, over the same file": self._torch_save_over,
            "ours": lambda: begin(self.sync, self.state, step),
            UNFORCED: lambda: self._unforced(step),
            STEP: self._step,
            SAVED_STEP: lambda: self._step_behind_a_save(step),
        }
        for name in (*rows, PASSES, SAVED_PASSES, STALL, WAIT, BEHIND):
            self.seconds.setdefault(name, [])
        for name in random.Random(step).sample(list(rows), len(rows)):
            quiet()
            started = time.perf_counter()
            self.seconds[name].append(timed(rows[name]))
            if name == SAVED_STEP:
                self.background.settled(wait=True)
                self.seconds[BEHIND].append(time.perf_counter() - started)
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

    def _step(self) -> None:
        self.seconds[PASSES].append(timed(self.training.passes))
        self.training.update()

    def _step_behind_a_save(self, step: int) -> None:
        """A save is begun, and the training goes on with the next step."""
        begun = timed(lambda: begin(self.background, self.state, step))
        self.seconds[SAVED_PASSES].append(timed(self.training.passes))
        waited = timed(self.fence.wait)
        self.training.update()
        self.seconds[STALL].append(begun + waited)
        self.seconds[WAIT].append(waited)

    def _load(self) -> None:
        found = Checkpoints(self.folder / "loaded", 1).newest_valid()
        assert isinstance(found, Loaded)
        assert not found.rejected

    def _torch_load(self, step: int) -> None:
        torch.load(self.folder / f"plain-{step}" / "state.pt", weights_only=True)


def ratio(over: Sequence[float], under: Sequence[float]) -> float:
    """The median of the rounds' ratios."""
    return statistics.median(a / b for a, b in zip(over, under, strict=True))


def longer(over: Sequence[float], under: Sequence[float]) -> list[float]:
    """By how many seconds, in each round."""
    return [a - b for a, b in zip(over, under, strict=True)]


def report(seconds: dict[str, list[float]], size_bytes: int) -> str:
    """The table, and each figure beside its goal."""
    lines = ["| | min, median of the rounds (s) |", "| --- | --- |"]
    for name, taken in seconds.items():
        lines.append(f"| {name} | {min(taken):.3f}, {statistics.median(taken):.3f} |")
    save = ratio(seconds["ours"], seconds[PLAIN])
    forced = ratio(seconds["ours"], seconds[FORCED])
    unforced = ratio(seconds[UNFORCED], seconds[PLAIN])
    stall = ratio(seconds[STALL], seconds["ours"])
    slower = ratio(longer(seconds[SAVED_STEP], seconds[STEP]), seconds["ours"])
    passes = ratio(longer(seconds[SAVED_PASSES], seconds[PASSES]), seconds["ours"])
    rate = size_bytes / 1e6 / statistics.median(seconds["load, verified"])
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
        f"| by what the passes behind it take longer, over a save | {passes:.1%} | |",
        f"| by what the step behind it takes longer, stall and all, over a save | {slower:.1%} | |",
        f"| load with verification | {rate:,.0f} MB/s | {wanted['load']} |",
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mebibytes", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--batch", type=int, default=32, help="rows of a training step")
    parser.add_argument("--folder", type=Path, help="where to write (default: a temporary folder)")
    parser.add_argument("--write", action="store_true", help="write the section of the page")
    given = parser.parse_args()
    training = Training(given.mebibytes, given.batch)
    with (
        nullcontext(str(given.folder)) if given.folder else tempfile.TemporaryDirectory()
    ) as folder:
        rounds = Rounds(Path(folder), training)
        rounds.once(0)  # the first one asks for memory that the others use again
        rounds.seconds.clear()
        for step in range(1, given.rounds + 1):
            rounds.once(step)
    text = report(rounds.seconds, training.size_bytes)
    print(text)
    if given.write:
        about = (
            f"{__doc__.partition(chr(10) * 2)[2].strip()} {given.mebibytes} MiB, "
            f"{given.batch} rows in a step, {given.rounds} rounds, "
            f"{many(torch.get_num_threads(), 'thread')}; the ratios are medians of the rounds' "
            "ratios."
        )
        write_section("checkpoints", "Checkpoints", f"{about}\n\n{text}")


if __name__ == "__main__":
    main()
