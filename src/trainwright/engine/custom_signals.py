"""A user's own numbers among the signals of each step."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import final

from torch import Tensor

from trainwright.core.errors import Mistake, Problem
from trainwright.data.loading.feed import StepBatches
from trainwright.engine.step import Step
from trainwright.engine.telemetry import Window
from trainwright.tracking.custom_metrics import OWN, own_means, version_of
from trainwright.tracking.events import NO_OWN, Number, OwnNumbers, StepOutcome, read_number

_NAME = re.compile(r"[A-Za-z_][\w./-]*", re.ASCII)


@final
class OwnSignals:
    """Takes named numbers while a step is made: from an objective, a model or a loop.

    A number on a GPU stays there and is read with the others of its window; on a CPU reading costs
    nothing. A name that comes several times in a step, once for each micro-batch, is the sum of its
    totals over the sum of its counts, as the loss is.
    """

    def __init__(self) -> None:
        self._known: set[str] = set()
        self._names: list[str] = []
        self._totals: list[Number] = []
        self._counts: list[int] = []
        self._versions: list[int] = []

    def __call__(self, name: str, total: Number, count: int = 1) -> None:
        """Name a number of this step: `total` is the sum over `count` things, or one number.

        The graph behind a tensor is let go. A tensor on a GPU that is changed in place afterwards
        must be passed as a copy; where it was not, that is told when it is read.

        Raises:
            Mistake: not a name for a signal, or not one number.
        """
        if name not in self._known:
            self._learn(name)
        number = total
        if isinstance(total, Tensor):
            try:
                number = total.item() if total.is_cpu else self._waiting(total)
            except RuntimeError:  # what torch says of several numbers
                raise _not_one_number(name, total) from None
        self._names.append(name)
        self._totals.append(number)
        self._counts.append(count)

    def take(self) -> OwnNumbers:
        """What was named since the last time, for `StepOutcome.own`."""
        if not self._names:
            return NO_OWN
        taken = OwnNumbers(
            tuple(self._names), tuple(self._totals), tuple(self._counts), tuple(self._versions)
        )
        self._names.clear()
        self._totals.clear()
        self._counts.clear()
        self._versions.clear()
        return taken

    def _waiting(self, total: Tensor) -> Tensor:
        """A number that stays on its device until its window is read; it has no dimensions."""
        self._versions.append(version_of(total))
        return total.detach().view(()) if total.ndim else total.detach()

    def _learn(self, name: str) -> None:
        if not _NAME.fullmatch(name):
            raise _not_a_name(name)
        self._known.add(name)


@final
class SignalledStep:
    """A step whose outcome has the numbers that were named in it.

    It stands right around the step that calls the objective: inside of what makes a step again when
    memory runs out, so that a pass that failed leaves no numbers behind.
    """

    def __init__(self, step: Step, own: OwnSignals) -> None:
        self._step = step
        self._own = own

    def __call__(self, work: StepBatches) -> StepOutcome:
        """The step, with its own signals."""
        self._own.take()
        outcome = self._step(work)
        return outcome._replace(own=self._own.take())


@final
class OwnMeans:
    """A gauge: `own/<name>`, the mean of each own signal over the steps of a window that named
    it."""

    def read(self, window: Window) -> Mapping[str, Number]:
        """The means."""
        named = [step.own for step in window.steps]
        own = OwnNumbers(
            tuple(name for one in named for name in one.names),
            tuple(total for one in named for total in one.totals),
            tuple(count for one in named for count in one.counts),
        )
        means = own_means(own, [read_number(total) for total in own.totals])
        return {f"{OWN}{name}": mean for name, mean in means.items()}


def _not_a_name(name: str) -> Mistake:
    return Mistake(
        Problem(
            "this is no name for a signal",
            found=repr(name),
            expected="a letter, then letters, digits, and any of _ . / -",
            fix="change it",
        )
    )


def _not_one_number(name: str, total: Tensor) -> Mistake:
    return Mistake(
        Problem(
            f"the signal {name} is not one number",
            found=f"a tensor of shape {tuple(total.shape)}",
            expected="a float, or a tensor with one element",
            fix="pass its sum and, as count, how many there are",
        )
    )
