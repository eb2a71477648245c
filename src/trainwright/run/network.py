"""The learner of networks: the loop, and the best weights it found. Needs torch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import final

import torch

from trainwright.checkpoint.evaluated import evaluated_part
from trainwright.checkpoint.store import Loaded
from trainwright.contract.model import Network
from trainwright.data.prepared import Prepared
from trainwright.engine.loop import fit
from trainwright.planner.plan import Plan
from trainwright.predictor.predictor import Predictor
from trainwright.run.compose import compose
from trainwright.run.context import RunContext
from trainwright.run.fitted import Fitted


@final
class NetworkLearner:
    """Trains a network with the loop."""

    def __init__(self, section: Network, plan: Plan) -> None:
        self._section = section
        self._plan = plan

    def fit(self, prepared: Prepared, run: RunContext) -> Fitted:
        """Train, going on from the newest checkpoint of the run if it has one."""
        with _deterministic():
            composed = compose(self._section, self._plan, prepared, run)
            ended = fit(composed.job)
        predictor = Predictor(prepared.features, prepared.target, composed.scorer)
        reason = ended.reason
        keeps_best = self._plan.contract.training.early_stopping != "off"
        if keeps_best and ended.kind in ("finished", "early", "budget"):
            best = composed.checkpoints.best_valid()
            if isinstance(best, Loaded):
                composed.model.restore(evaluated_part(best.parts))
                return Fitted(predictor, ended.kind, f"{reason}; weights of step {best.step:,}")
        with composed.weights.evaluated():
            last = composed.model.snapshot()
        composed.model.restore(last)
        return Fitted(predictor, ended.kind, reason)


@contextmanager
def _deterministic() -> Iterator[None]:
    """Only algorithms that give the same bits every time; the caller's setting comes back."""
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before)
