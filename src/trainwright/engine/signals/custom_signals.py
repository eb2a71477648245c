"""User-defined signals of a step."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import final

from torch import Tensor

from trainwright.core.errors import Mistake, Problem
from trainwright.engine.signals.telemetry import Window
from trainwright.tracking.events import NO_OWN, Number, OwnNumbers, read_number
from trainwright.tracking.signals import OWN, own_means, version_of

_NAME = re.compile(r"[A-Za-z_][\w./-]*", re.ASCII)


@final
class OwnSignals:
    """Collects named values while a step runs: from an objective, a model or a loop.

    A value on a GPU stays there and is read with the others of its window; on a CPU reading it is
    free. A name recorded several times in a step, once per micro-batch, is the sum of its totals
    over the sum of its counts, like the loss. `OptimizerStep.recording` puts the signals into the
    outcome of a step.
    """

    def __init__(self) -> None:
        self._known: set[str] = set()
        self._names: list[str] = []
        self._totals: list[Number] = []
        self._counts: list[int] = []
        self._versions: list[int] = []

    def __call__(self, name: str, total: Number, count: int = 1) -> None:
        """Record a value of this step: `total` is a sum over `count` items, or a single value.

        The tensor is detached. A GPU tensor that is modified in place afterwards must be passed as
        a copy; a violation is reported when the value is read.

        Raises:
            Mistake: invalid signal name, or not a single number.
        """
        if name not in self._known:
            self._learn(name)
        number = total
        if isinstance(total, Tensor):
            try:
                number = total.item() if total.is_cpu else self._waiting(total)
            except RuntimeError:  # raised by torch for several elements
                raise _not_one_number(name, total) from None
        self._names.append(name)
        self._totals.append(number)
        self._counts.append(count)

    def take(self) -> OwnNumbers:
        """Values recorded since the last call, for `StepOutcome.own`."""
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
        """Value that stays on its device until its window is read; 0-d."""
        self._versions.append(version_of(total))
        return total.detach().view(()) if total.ndim else total.detach()

    def _learn(self, name: str) -> None:
        if not _NAME.fullmatch(name):
            raise _not_a_name(name)
        self._known.add(name)


def no_signals() -> OwnNumbers:
    """No user-defined signals."""
    return NO_OWN


@final
class OwnMeans:
    """Gauge `own/<name>`: mean of each user-defined signal over the steps of a window that recorded
    it."""

    def read(self, window: Window) -> Mapping[str, Number]:
        """Means of the window."""
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
            "invalid signal name",
            found=repr(name),
            expected="a letter, followed by letters, digits and any of _ . / -",
            fix="change it",
        )
    )


def _not_one_number(name: str, total: Tensor) -> Mistake:
    return Mistake(
        Problem(
            f"the signal {name} is not a single number",
            found=f"a tensor of shape {tuple(total.shape)}",
            expected="a float, or a tensor with one element",
            fix="pass the sum, and the number of items as count",
        )
    )
