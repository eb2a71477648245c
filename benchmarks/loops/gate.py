"""Takes turns: loops that own their control flow make a few steps each, one after the other.

Each loop runs in a thread of its own, and only one of them ever runs. So a loop that is one long
call (`fit`, `train`) is measured in its steady state, between two of its steps, without a callback.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, final

import torch
from torch import Tensor, nn


class Over(BaseException):
    """The measurement is over: a loop must let it through."""


class Watched(NamedTuple):
    """What a loop trains, and the optimizer steps it has made, to look at between two turns."""

    model: nn.Module
    applied: Callable[[], int]

    def weights(self) -> Tensor:
        """All parameters in one float64 vector, on the CPU."""
        parts = [parameter.detach().double().cpu() for parameter in self.model.parameters()]
        return torch.cat([part.reshape(-1) for part in parts])


@final
class Gate:
    """What a loop passes with every micro-batch it is about to fetch; it waits there between turns.

    A loop that fetches one batch ahead is stopped one batch later, which leaves the number of steps
    between two stops unchanged. What a loop writes goes to `folder`.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._go, self._done = threading.Semaphore(0), threading.Semaphore(0)
        self._left = 0
        self._opened = 0
        self._turn = 0
        self._over = False
        self._started = 0.0
        self.seconds = 0.0
        self.watched: list[Watched] = []

    @property
    def micro_batches(self) -> int:
        """How many were fetched so far, while the loop waits."""
        return self._opened - self._left

    def watch(self, model: nn.Module, applied: Callable[[], int]) -> None:
        """Say what is trained; once, before the first batch is fetched."""
        self.watched.append(Watched(model, applied))

    def passed(self, micro_batches: int = 1) -> None:
        """So many micro-batches are fetched now."""
        if self._left <= 0:
            self._wait()
        self._left -= micro_batches

    def open(self, micro_batches: int) -> None:
        """Let the loop go on for so many, and wait until it is back."""
        self._turn = micro_batches
        self._go.release()
        self._done.acquire()

    def close(self) -> None:
        """End the loop."""
        self._over = True
        self._go.release()
        self._done.acquire()

    def wait_for_start(self) -> None:
        """Until the loop stands before its first batch, or has failed."""
        self._done.acquire()

    def leave(self) -> None:
        """The thread of the loop ends."""
        self._done.release()

    def _wait(self) -> None:
        self.seconds = clock() - self._started
        self._done.release()
        self._go.acquire()
        if self._over:
            raise Over
        self._opened += self._turn
        self._left += self._turn
        self._started = clock()


@final
class Lane:
    """One loop in its thread."""

    def __init__(self, name: str, run: Callable[[Gate], None], folder: Path) -> None:
        self.name = name
        self.problem = ""
        self._gate = Gate(folder)
        self._run = run
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()
        self._gate.wait_for_start()

    @property
    def watched(self) -> Watched:
        """What it trains; there is no problem."""
        return self._gate.watched[0]

    def turn(self, micro_batches: int) -> float:
        """Seconds that it took for so many micro-batches; 0 after a problem."""
        if self.problem:
            return 0.0
        self._gate.open(micro_batches)
        return self._gate.seconds

    def close(self) -> None:
        """End the loop."""
        if not self.problem:
            self._gate.close()
        self._thread.join()

    def _work(self) -> None:
        try:
            self._run(self._gate)
            self.problem = "ended by itself"
        except Over:
            pass
        except BaseException as error:
            self.problem = f"{type(error).__name__}: {error}".splitlines()[0][:200]
        finally:
            self._gate.leave()


def clock() -> float:
    """Processor time of the process; where there is a GPU, wall time once it has finished."""
    if not torch.cuda.is_available():
        return time.process_time()
    torch.cuda.synchronize()
    return time.perf_counter()
