"""Trials that end before their training does, by their validations and those of trials before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, final

from trainwright.contract.sections.metric import METRICS, Direction
from trainwright.core.progress import Progress
from trainwright.run.request import Additions
from trainwright.tracking.events import Event, Validated
from trainwright.tune.proposals import new_study

if TYPE_CHECKING:
    from optuna.trial import Trial

    from trainwright.engine.stopping.stop_rules import StopReason


@final
class PruneRule:
    """A stop rule that asks Optuna's pruner about the validations it observes.

    The trials before are shown to the pruner again, validation by validation, as some pruners note
    with each how far it came. They are those that were known when the trial began, so the answer
    does not depend on how long other trials take.
    """

    def __init__(self, stop: str, before: Sequence[Mapping[str, Any]], metric: str) -> None:
        self.stopped = ""
        self.values: dict[int, float] = {}
        self._metric = metric
        self._stop, self._before = stop, before
        self._trial: Trial | None = None

    def additions(self) -> Additions:
        """The rule for a request; none where nothing is pruned."""
        return Additions() if self._stop == "off" else Additions((self,), (self,))

    def observe(self, event: Event) -> None:
        """Ask the pruner about a validation."""
        if not isinstance(event, Validated) or not event.values:
            return
        # The contract's metric, or the loss that a library watches.
        names = (f"val_{self._metric}", self._metric)
        name = next((name for name in names if name in event.values), "")
        direction = METRICS[self._metric].direction if name else "min"
        value = event.values[name] if name else next(iter(event.values.values()))
        step = event.progress.step
        self.values[step] = value
        if self._trial is None:
            self._trial = self._begin(direction)
        self._trial.report(value, step)
        if self._trial.should_prune():
            self.stopped = f"pruned ({self._stop}) at step {step:,}"

    def reason(self, _progress: Progress) -> StopReason | None:
        """The reason of the pruner, once it has one."""
        if not self.stopped:
            return None
        from trainwright.engine.stopping.stop_rules import StopReason

        return StopReason("early", self.stopped)

    def _begin(self, direction: Direction) -> Trial:
        """A trial of Optuna in a study that knows those before."""
        from optuna.pruners import HyperbandPruner, MedianPruner

        study = new_study(direction)
        study.pruner = MedianPruner() if self._stop == "median" else HyperbandPruner()
        for earlier in self._before:
            trial = study.ask()
            # JSON has its keys in the order of texts.
            for step, value in sorted(earlier["steps"].items(), key=lambda pair: int(pair[0])):
                trial.report(value, int(step))
                trial.should_prune()
            study.tell(trial, earlier["value"])
        return study.ask()
