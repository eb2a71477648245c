"""Optimizer step fused into the backward pass: each parameter is updated as soon as its gradient is
computed."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any, Literal, Self, final

import torch
from torch import Tensor, nn

from trainwright.checkpoint.states.random_state import key_generators
from trainwright.core.errors import Mistake, NonFinite, Problem
from trainwright.data.loading.feed import StepBatches
from trainwright.distributed.strategy import norm_of_norms, norms_of
from trainwright.engine.buffers import MovingBuffers
from trainwright.engine.execution.oom import is_out_of_memory
from trainwright.engine.execution.precision import Full, Precision, run_backward
from trainwright.engine.guards.step_guard import Halt, Judgement, StepGuard
from trainwright.engine.update.oom_policy import OutOfMemoryPolicy, RaiseOutOfMemory, no_update
from trainwright.engine.update.step import above, no_limit, no_reader, root_of
from trainwright.engine.update.step_mistakes import wrong_count
from trainwright.objective.losses import LossSum, Objective
from trainwright.optim.optimizer_protocol import drops_on_device
from trainwright.tracking.events import StepOutcome


@final
class InBackwardStep:
    """Update that never holds two gradients at once (LOMO: Lv et al. 2023, arXiv:2306.09782,
    section 3.1, there for SGD).

    The update is bit-identical to that of `OptimizerStep` without clipping, as long as every number
    is finite. A non-finite loss makes no update. A non-finite gradient makes none either, nor do
    the gradients after it; those before it have already been applied. All weights stay finite, but
    the step is half made: the outcome says dropped, and the state from before it must be restored.
    So the guard's policy is `rollback`, inside `NeverSaveHalf`.

    Args:
        model: the model to train; already on its device, in training mode.
        objective: summed loss of a micro-batch.
        optimizer: fused, and without state shared by all parameters, as torch's SGD, Adam and
            AdamW.
        precision: precision of the forward pass; loss scaling is refused.
    """

    def __init__(
        self,
        model: nn.Module,
        objective: Objective,
        optimizer: torch.optim.Optimizer,
        *,
        precision: Precision | None = None,
    ) -> None:
        assert drops_on_device(optimizer), "the rules refuse the others"
        self._model = model
        self._objective = objective
        self._optimizer = optimizer
        self._forward = (precision or Full()).forward
        self._groups: dict[Tensor, dict[str, Any]] = {
            parameter: group for group in optimizer.param_groups for parameter in group["params"]
        }
        self._buffers = MovingBuffers(model)
        self._norms: dict[Tensor, Tensor] = {}
        self._dropped: float | Tensor = 0.0
        self._before_update: Callable[[], object] = no_reader
        self._limit: Callable[[], float] = no_limit
        self._memory: OutOfMemoryPolicy = RaiseOutOfMemory()
        self._draws: int | Literal["as they come"] = "as they come"
        for parameter in self._groups:
            parameter.register_post_accumulate_grad_hook(self._update)  # type: ignore[no-untyped-call]

    def drawing_by(self, seed: int) -> Self:
        """As in `OptimizerStep`."""
        self._draws = seed
        return self

    def handling_memory(self, policy: OutOfMemoryPolicy) -> Self:
        """This step, with a policy for memory that runs out in its forward pass; it is never
        repeated."""
        self._memory = policy
        return self

    def dropping_above(self, limit: Callable[[], float]) -> Self:
        """As in `OptimizerStep`, for the whole update: the loss is known before it begins."""
        self._limit = limit
        return self

    def waiting_for(self, before_update: Callable[[], object]) -> Self:
        """This step, with `wait` called before each backward pass, which writes weights and
        moments."""
        self._before_update = before_update
        return self

    def __call__(self, work: StepBatches) -> StepOutcome:
        """Train on the batches of one step, which must be a single micro-batch."""
        started = time.perf_counter()
        self._norms = {}
        self._memory.begin()
        self._buffers.keep()
        loss_sum = self._passed(work)
        if isinstance(loss_sum, str):
            repeats = self._memory.repeats(work, self._memory.failed(work, loss_sum))
            assert not repeats, "a step with a single micro-batch is not split"
            return no_update(work)
        self._memory.passed()
        self._before_update()
        loss: float | Tensor
        passes_over = False
        if loss_sum.device.type == "cpu":
            loss = loss_sum.item() / work.targets
            passes_over = self._limit() < loss < math.inf
            self._dropped = 0.0 if math.isfinite(loss) and not passes_over else 1.0
        else:
            loss = loss_sum.detach() / work.targets
            nonfinite = torch.logical_not(torch.isfinite(loss)).to(torch.float32)
            self._dropped = above(loss, self._limit(), nonfinite)
        if isinstance(self._dropped, Tensor) or not self._dropped:
            run_backward((loss_sum,), (root_of(loss_sum, work.targets),))
        if not self._buffers.settled:
            self._buffers.settle()
        if isinstance(self._dropped, Tensor):
            self._buffers.put_back_if(self._dropped)
        elif self._dropped:
            self._buffers.put_back()
        norm = 0.0 if passes_over else self._norm()
        return StepOutcome(
            loss=loss,
            learning_rate=self._optimizer.param_groups[0]["lr"],
            gradient_norm=norm,
            found_nonfinite=self._dropped,
            step_seconds=time.perf_counter() - started,
            data_seconds=work.wait_seconds,
            rows=work.rows,
            samples=work.samples,
            epoch=work.epoch,
            targets=work.targets,
            places=work.places,
        )

    def _passed(self, work: StepBatches) -> Tensor | str:
        """Summed loss of the micro-batch; the error where memory ran out."""
        if len(work.micro_batches) != 1:
            raise _one_micro_batch(len(work.micro_batches))
        if self._draws != "as they come":
            device = next(self._model.parameters()).device
            key_generators(self._draws, work.samples, device)
        try:
            with self._forward():
                loss: LossSum = self._objective(self._model, work.micro_batches[0])
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            self._buffers.put_back()
            return str(error).partition("\n")[0] or type(error).__name__
        if loss.targets != work.targets:
            raise wrong_count(loss.targets, work.targets)
        return loss.sum

    def _update(self, parameter: Tensor) -> None:
        """Update this parameter alone, and release its gradient."""
        assert parameter.grad is not None
        norm = norms_of([parameter.grad])[0]
        self._norms[parameter] = norm
        if not isinstance(self._dropped, Tensor):
            if not math.isfinite(norm.item()):
                self._dropped = 1.0
            if not self._dropped:
                self._step_alone(parameter)
        else:
            bad = torch.logical_not(torch.isfinite(norm)).to(torch.float32)
            self._dropped = torch.maximum(self._dropped, bad)
            self._optimizer.found_inf = self._dropped  # type: ignore[attr-defined]
            self._step_alone(parameter)
        parameter.grad = None

    def _step_alone(self, parameter: Tensor) -> None:
        """The optimizer's own step, with this parameter as its only one."""
        optimizer, group = self._optimizer, self._groups[parameter]
        groups, members = optimizer.param_groups, group["params"]
        optimizer.param_groups, group["params"] = [group], [parameter]
        try:
            optimizer.step()
        finally:
            optimizer.param_groups, group["params"] = groups, members

    def _norm(self) -> float | Tensor:
        """L2 norm of the whole gradient, summed in the order of the optimizer."""
        norms = [self._norms[one] for one in self._groups if one in self._norms]
        if not norms:
            return math.nan
        return norm_of_norms(norms)


@final
class NeverSaveHalf:
    """Ends the run without a checkpoint where the wrapped guard halts it, because a step may be
    half made. The run resumes from the newest checkpoint."""

    def __init__(self, guard: StepGuard) -> None:
        self._guard = guard

    def judge(self, outcome: StepOutcome) -> Judgement:
        """Judgement of the wrapped guard.

        Raises:
            NonFinite: the judgement is `Halt`.
        """
        judgement = self._guard.judge(outcome)
        if isinstance(judgement, Halt):
            raise NonFinite(f"the training was halted: {judgement.why}")
        return judgement


def _one_micro_batch(found: int) -> Mistake:
    return Mistake(
        Problem(
            "an update in the backward pass needs a single micro-batch",
            path="training.memory.update",
            found=f"{found} micro-batches",
            expected="gradient_accumulation_steps 1",
            fix="write update: after_backward",
        )
    )
