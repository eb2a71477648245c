"""Learning rate during stochastic weight averaging."""

from __future__ import annotations

from bisect import bisect_right
from typing import assert_never, final

from trainwright.contract.sections.training.averaging import ConstantRate, CyclicRate
from trainwright.core.progress import Progress
from trainwright.optim.lr_schedule import half_cosine
from trainwright.optim.optimizer_protocol import Optimizer
from trainwright.optim.swa_schedule import SWASchedule


@final
class SWALearningRate:
    """Schedule that overrides the learning rate from the start of the averaging (Izmailov et al.
    2018, arXiv:1803.05407, section 3.1).

    The peak is the rate of the group when this object was constructed.

    Args:
        optimizer: its learning rates are set.
        section: constant or cyclic.
        taking: start of the averaging, and the end of each cycle.
        anneal_steps: steps over which a constant rate is reached.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        section: ConstantRate | CyclicRate,
        taking: SWASchedule,
        anneal_steps: int = 0,
    ) -> None:
        self._groups = [(group, float(group["lr"])) for group in optimizer.param_groups]
        self._section = section
        self._taking = taking
        self._anneal_steps = anneal_steps

    def __call__(self, progress: Progress) -> None:
        """Set the learning rate of the step after `progress.step` applied ones."""
        made = progress.step - self._taking.start
        if made < 0:
            return
        section = self._section
        match section:
            case ConstantRate(ratio=ratio):
                share = min(1.0, (made + 1) / (self._anneal_steps + 1))
                left = half_cosine(share)
                for group, peak in self._groups:
                    group["lr"] = left * group["lr"] + (1 - left) * peak * ratio
            case CyclicRate(high_ratio=high, low_ratio=low):
                share = self._share_of_cycle(progress.step)
                for group, peak in self._groups:
                    group["lr"] = peak * ((1 - share) * high + share * low)
            case _:
                assert_never(section)

    def _share_of_cycle(self, step: int) -> float:
        """Share of the current cycle completed after the next step; 1 after the last cycle."""
        steps = self._taking.steps
        at = bisect_right(steps, step)
        if at == len(steps):
            return 1.0
        begin = steps[at - 1] if at else self._taking.start
        return (step - begin + 1) / (steps[at] - begin)
