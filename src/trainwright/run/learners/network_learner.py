"""Learner of networks: the training loop, and the best weights it found. Needs torch."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import final

from trainwright.checkpoint.states.eval_weights_state import evaluated_part
from trainwright.checkpoint.store import Loaded
from trainwright.contract.sections.model.traits import ModelSection
from trainwright.core.errors import Mistake, Problem
from trainwright.data.types import Prepared
from trainwright.engine.loop import fit
from trainwright.engine.stopping.stop_rules import TimeLimit
from trainwright.model.row_state import remove_projection
from trainwright.optim.lr_schedule import build_schedule
from trainwright.optim.plateau import Plateau
from trainwright.planner.estimate import scheduled_steps
from trainwright.planner.plan import Plan
from trainwright.predictor.predictor import Predictor
from trainwright.run.compose.compose_job import Composed, compose, read_whole
from trainwright.run.compose.compose_step import kernels
from trainwright.run.learners.generalisation import note_fit, read_history
from trainwright.run.library_fit import Fitted
from trainwright.run.prepare.contract_target import watch_defined
from trainwright.run.ranks.follow import lead_ranks
from trainwright.run.run_context import RunContext
from trainwright.tracking.events import Ended


@final
class NetworkLearner:
    """Trains a network with the loop."""

    def __init__(self, section: ModelSection, plan: Plan) -> None:
        self._section = section
        self._plan = plan

    def fit(self, prepared: Prepared, run: RunContext) -> Fitted:
        """Train, resuming from the newest checkpoint of the run if it has one."""
        training = run.spent.training(run.folder.full_name)
        # Folds and candidates have other validation rows than the run.
        watching, _ = watch_defined(self._plan.contract, prepared)
        plan = replace(self._plan, contract=watching)
        ranks = lead_ranks(self._section, plan, prepared, run)
        with training, kernels(self._plan.contract), ranks:
            composed = compose(self._section, plan, prepared, run)
            self._check_resumable(composed, run)
            with composed.saving.copying, closing(composed.feed):
                ended = fit(composed.job)
        if plan.contract.distributed.divides_model:
            composed = read_whole(composed, self._section, plan, prepared, ended)
        note_fit(run, ended)
        cut = self._cut(ended, composed.limit)
        composed.job.model.eval()
        predictor = Predictor(prepared.features, prepared.target, composed.scorer)
        history = read_history(run.folder)
        reason = ended.reason
        keeps_best = self._plan.contract.training.early_stopping != "off"
        if keeps_best and ended.kind in ("finished", "early", "budget"):
            best = composed.saving.checkpoints.best_valid()
            if isinstance(best, Loaded):
                composed.model.restore(evaluated_part(best.parts))
                remove_projection(composed.job.model)
                passed_over = f"a better checkpoint than {best.name} is not used"
                rejected = tuple(f"{passed_over}: {why}" for why in best.rejected)
                warnings = (*cut, *rejected)
                reason = f"{reason}; weights of step {best.step:,}"
                return Fitted(
                    predictor, ended.kind, reason, warnings, best.step, history, best.step
                )
        with composed.weights.evaluated():
            last = composed.model.snapshot()
        composed.model.restore(last)
        remove_projection(composed.job.model)
        made = ended.progress.step
        return Fitted(predictor, ended.kind, reason, cut, history=history, length=made)

    def _cut(self, ended: Ended, limit: TimeLimit) -> tuple[str, ...]:
        """Warning if the time was used up before the planned steps were made."""
        if ended.kind != "budget":
            return ()
        training, plan = self._plan.contract.training, self._plan
        spans = scheduled_steps(self._plan.contract, plan.estimate.train_rows)
        schedule = build_schedule(training.scheduler, spans)
        made = ended.progress.step
        if isinstance(schedule, Plateau) or made >= spans:
            return ()
        last = limit.map_to_plan(max(0, made - 1))
        cut = f"the budget cut the training at step {made:,} of {spans:,}"
        if last >= spans - 1:
            return (f"{cut}, as steps took longer than planned: its schedule ended there",)
        rate = f"{schedule(last):.3g} of its peak"
        return (f"{cut}, before its schedule ended: the learning rate was at {rate}",)

    def _check_resumable(self, composed: Composed, run: RunContext) -> None:
        """Refuse to resume from checkpoints without the optimizer: it would not be the same run."""
        if self._plan.contract.training.checkpointing.save_optimizer_state:
            return
        newest = composed.saving.checkpoints.newest_valid()
        if isinstance(newest, Loaded) and newest.step:
            raise Mistake(
                Problem(
                    f"run {run.folder.name} cannot be resumed: its checkpoints lack the optimizer",
                    path="training.checkpointing.save_optimizer_state",
                    found="false",
                    expected="true, for runs that are to be resumed",
                    fix="start a new run without --resume",
                )
            )
