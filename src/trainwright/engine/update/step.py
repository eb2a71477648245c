"""Optimizer step: forward, backward over the micro-batches, clip, update."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from functools import partial
from typing import Literal, NamedTuple, Protocol, Self, final

import torch
from torch import Tensor, nn

from trainwright.checkpoint.states.random_state import key_generators
from trainwright.data.loading.feed import StepBatches
from trainwright.distributed.strategy import (
    Packet,
    SingleProcess,
    Staged,
    Strategy,
    packet_of,
)
from trainwright.engine.buffers import MovingBuffers
from trainwright.engine.execution.oom import is_out_of_memory
from trainwright.engine.execution.precision import (
    Full,
    LossScale,
    Precision,
    Unscaled,
    run_backward,
)
from trainwright.engine.signals.custom_signals import OwnSignals, no_signals
from trainwright.engine.stopping.rank_requests import RankRequests
from trainwright.engine.update.gradient_cache import LookAhead, no_look_ahead
from trainwright.engine.update.gradient_clipping import Clipping, NormLimit
from trainwright.engine.update.oom_policy import (
    OutOfMemoryPolicy,
    RaiseOutOfMemory,
    no_update,
)
from trainwright.engine.update.stage_passes import pass_stages
from trainwright.engine.update.step_mistakes import (
    awaited_rank,
    no_gradient,
    no_loss_sum,
    no_targets,
    short_loss_sum,
    wrong_count,
)
from trainwright.objective.losses import SHORT, LossSum, Objective
from trainwright.optim.fused_adam import stepping_of
from trainwright.optim.optimizer_protocol import Optimizer, drops_on_device
from trainwright.tracking.events import OwnNumbers, StepOutcome

_MOST_ROOTS = 256


class Step(Protocol):
    """Turns the batches of one step into one update of the weights.

    A non-finite loss or gradient must reach neither the weights nor the optimizer's moments; the
    outcome then says that the update was dropped.
    """

    def __call__(self, work: StepBatches) -> StepOutcome:
        """Make one update."""
        ...


class Update(NamedTuple):
    """Whether the update was dropped, whether its gradient was clipped, and whether it contained a
    non-finite number (0 or 1)."""

    dropped: float | Tensor
    clipped: float | Tensor
    nonfinite: float | Tensor


_NONFINITE, _ABOVE = Update(1.0, 0.0, 1.0), Update(1.0, 0.0, 0.0)
_APPLIED, _CLIPPED = Update(0.0, 0.0, 0.0), Update(0.0, 1.0, 0.0)


@final
class OptimizerStep:
    """One update of a model's weights by a torch optimizer.

    The losses of all micro-batches are summed and divided once by the number of targets of the
    whole step, over all ranks, so neither the split into micro-batches nor that into ranks changes
    the update. The division is the root gradient of the backward pass, 1 / targets, which costs
    nothing. Ranks exchange one `Packet` a step, from which each of them takes the same branch.

    Memory that runs out in the passes leaves weights, moments and running statistics unchanged; the
    out-of-memory policy decides what follows, and raises `BackwardOutOfMemory` by default.

    On a CPU the gradient norm is read at once, which is free there. On a GPU nothing synchronises:
    norm, clipping and the decision to drop a non-finite update stay on the device, where the
    optimizer's fused kernel takes them as `grad_scale` and `found_inf`. For an optimizer without
    fused kernels the norm is read at each step.

    Args:
        model: the model to train; already on its device, in training mode.
        objective: summed loss of a micro-batch.
        optimizer: over the model's parameters. On a GPU only a fused one never synchronises.
        max_norm: limit of the L2 norm of the whole gradient; `math.inf` never clips.
        clipping: another way to clip, instead of `max_norm`.
        precision: number format of the forward passes; fp32 by default.
        strategy: the ranks that train together; `model` is then what its `wrap` returned.
    """

    def __init__(
        self,
        model: nn.Module,
        objective: Objective,
        optimizer: Optimizer,
        *,
        max_norm: float = math.inf,
        clipping: Clipping | None = None,
        precision: Precision | None = None,
        strategy: Strategy | None = None,
    ) -> None:
        self._model = model
        self._objective = objective
        self._optimizer = optimizer
        self._clipping = clipping or NormLimit(max_norm)
        self._precision = precision or Full()
        self._forward, self._scale = self._precision.forward, self._precision.scale
        self._strategy = strategy or SingleProcess()
        # Asked once: such a check takes as long as a short step may.
        self._stages = strategy if isinstance(strategy, Staged) else None
        self._reduce: Callable[[Packet], Packet] = self._strategy.reduce
        self._parameters = [
            parameter for group in optimizer.param_groups for parameter in group["params"]
        ]
        self._buffers = MovingBuffers(model)
        self._roots: dict[tuple[int, torch.dtype], Tensor] = {}
        self._drops_on_device = drops_on_device(optimizer)
        self._apply = stepping_of(optimizer)
        self._before_update: Callable[[], object] = no_reader
        self._limit: Callable[[], float] = no_limit
        self._memory: OutOfMemoryPolicy = RaiseOutOfMemory()
        self._take_own: Callable[[], OwnNumbers] = no_signals
        self._look_ahead: LookAhead = no_look_ahead
        self._draws: int | Literal["as they come"] = "as they come"

    def drawing_by(self, seed: int) -> Self:
        """This step, with the random numbers of each micro-batch (dropout, stochastic depth) keyed
        by a seed, the position of the step and the index of the micro-batch: so they do not depend
        on which rank runs it."""
        self._draws = seed
        return self

    def handling_memory(self, policy: OutOfMemoryPolicy) -> Self:
        """This step, with a policy for memory that runs out in its passes."""
        self._memory = policy
        return self

    def recording(self, own: OwnSignals) -> Self:
        """This step, with the user-defined signals recorded in its passes as part of its outcome;
        those of a pass that ran out of memory are discarded."""
        self._take_own = own.take
        return self

    def carrying(self, requests: RankRequests) -> Self:
        """This step, with the stop and save requests of this rank in its packet."""
        self._reduce = requests.carried_by(self._strategy.reduce)
        return self

    def dropping_above(self, limit: Callable[[], float]) -> Self:
        """This step, with updates dropped where the loss exceeds `limit`: see
        `PolicyGuard.limit`."""
        self._limit = limit
        return self

    def looking_ahead(self, look_ahead: LookAhead) -> Self:
        """This step, with `look_ahead` called before its passes: for a loss that depends on all
        micro-batches of all ranks."""
        self._look_ahead = look_ahead
        return self

    @property
    def clipping(self) -> Clipping:
        """Gradient clipping of this step."""
        return self._clipping

    @property
    def objective(self) -> Objective:
        """The loss that it minimises."""
        return self._objective

    @property
    def precision(self) -> Precision:
        """The number format of its forward passes."""
        return self._precision

    def waiting_for(self, before_update: Callable[[], object]) -> Self:
        """This step, with `before_update` called each time before it writes weights and moments, to
        wait until nothing copies them any more."""
        self._before_update = before_update
        return self

    def __call__(self, work: StepBatches) -> StepOutcome:
        """Train on the batches of one step."""
        started = time.perf_counter()
        memory = self._memory
        memory.begin()
        told = self._reduce(self._backward(memory.cut(work)))
        while told.out_of_memory:
            self._undo_passes()
            if not memory.repeats(work, told.out_of_memory):
                return no_update(work)
            told = self._reduce(self._backward(memory.cut(work)))
        memory.passed()
        if told.targets != work.targets:
            raise wrong_count(told.targets, work.targets)
        loss = told.loss / work.targets
        if not self._buffers.settled:
            self._buffers.settle()
        norm, update = self._clip_and_update(math.nan if told.nonfinite else loss)
        return StepOutcome(
            loss=loss,
            learning_rate=self._optimizer.param_groups[0]["lr"],
            gradient_norm=norm,
            found_nonfinite=update.dropped,
            step_seconds=time.perf_counter() - started,
            data_seconds=work.wait_seconds,
            rows=work.rows,
            samples=work.samples,
            epoch=work.epoch,
            clipped=update.clipped,
            targets=work.targets,
            own=self._take_own(),
            places=work.places,
        )

    def _backward(self, work: StepBatches) -> Packet:
        """Accumulate the gradients of all micro-batches of this rank; its packet."""
        for parameter in self._parameters:
            parameter.grad = None
        self._buffers.keep()
        self._take_own()
        model, strategy, targets = self._model, self._strategy, work.targets
        passes = list(enumerate(work.micro_batches))
        if strategy.world_size > 1:  # a short step may have fewer micro-batches than ranks
            passes = [(index, batch) for index, batch in passes if len(batch[0])]
        left, counted, total = len(passes), 0, None
        try:
            draw: Callable[[int], None] = _keep_drawing
            if self._draws != "as they come":
                at = (work.samples, strategy.device, len(work.before))
                draw = partial(key_generators, self._draws, *at)
            if self._stages is not None:
                batches = [batch for _, batch in passes]
                given_by = (self._objective, self._forward, partial(self._root, targets), draw)
                return pass_stages(self._stages, batches, *given_by)
            self._look_ahead(model, work.micro_batches, self._forward, strategy, draw)
            for index, batch in passes:
                left -= 1
                draw(index)
                with strategy.micro_batch(model, last=not left):
                    with self._forward():
                        given = self._objective(model, batch)
                    if type(given) is not LossSum:
                        given = _as_loss_sum(given)
                    loss_sum, count = given
                    idle, root = work.idle and not left, self._root(targets, loss_sum)
                    run_backward((loss_sum,), (torch.zeros_like(root) if idle else root,))
                if idle:
                    break
                counted += count
                if left or total is not None:  # of a single one it costs more than reading it
                    loss_sum = loss_sum.detach()
                total = loss_sum if total is None else total + loss_sum
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            why = str(error).partition("\n")[0] or type(error).__name__
            if strategy.passes_together:
                raise awaited_rank(why) from error
            return Packet(0.0, 0, out_of_memory=self._memory.failed(work, why))
        return Packet(0.0, 0) if total is None else packet_of(total, counted)

    def _undo_passes(self) -> None:
        """Undo the passes on every rank: memory ran out on one of them."""
        for parameter in self._parameters:
            parameter.grad = None
        self._buffers.put_back()

    def _clip_and_update(self, loss: float | Tensor) -> tuple[float | Tensor, Update]:
        """Gradient norm before clipping, and what became of the update. It waits for readers of
        the weights."""
        gradients = [p.grad for p in self._parameters if p.grad is not None]
        if not gradients:
            raise no_gradient()
        norm = self._strategy.gradient_norm(gradients)
        if not self._drops_on_device:
            norm = float(norm)
        self._before_update()
        if isinstance(norm, float):
            if not isinstance(self._scale, Unscaled):
                norm = self._unscale(gradients, norm)
            update = self._update_on_host(float(loss), norm, gradients)
        else:
            if not isinstance(self._scale, Unscaled):
                norm = norm / self._scale.on(norm.device)
            update = self._update_on_device(torch.as_tensor(loss), norm, gradients)
        if not isinstance(self._scale, Unscaled):
            self._scale.adapt(update.nonfinite)
        return norm, update

    def _root(self, targets: int, loss_sum: Tensor) -> Tensor:
        """Root gradient of the backward pass: 1 / targets, times the loss scale. 1 / targets is
        cached by number of targets. Text steps may have any number of targets, so the cache is
        bounded."""
        key = (targets, loss_sum.dtype)
        root = self._roots.get(key)
        if root is None:
            if targets == 0:
                raise no_targets()
            if len(self._roots) == _MOST_ROOTS:
                self._roots.clear()
            root = self._roots[key] = root_of(loss_sum, targets)
        if isinstance(self._scale, Unscaled):
            return root
        return (root * self._scale.on(root.device)).to(loss_sum.dtype)

    def _unscale(self, gradients: list[Tensor], norm: float) -> float:
        """Divide by the loss scale on the host; the unscaled norm. The division is exact because
        the factor is a power of two."""
        assert isinstance(self._scale, LossScale)
        factor = self._scale.on(gradients[0].device).item()
        torch._foreach_div_(gradients, factor)
        return norm / factor

    def _update_on_host(self, loss: float, norm: float, gradients: list[Tensor]) -> Update:
        """Clip and update, unless a number is not finite."""
        if not (math.isfinite(norm) and math.isfinite(loss)):
            self._buffers.put_back()
            return _NONFINITE
        if loss > self._limit():
            self._buffers.put_back()
            return _ABOVE
        clipped = self._clipping.clip(gradients, norm)
        self._apply()
        return _CLIPPED if clipped else _APPLIED

    def _update_on_device(self, loss: Tensor, norm: Tensor, gradients: list[Tensor]) -> Update:
        """The same without reading a number."""
        nonfinite = torch.logical_not(torch.isfinite(norm + loss)).to(torch.float32)
        dropped = above(loss, self._limit(), nonfinite)
        divisor, clipped = self._clipping.clip_on_device(gradients, norm)
        if isinstance(self._scale, LossScale):
            divisor = divisor * self._scale.on(norm.device)
        if isinstance(divisor, Tensor):
            self._optimizer.grad_scale = divisor  # type: ignore[attr-defined]
        self._optimizer.found_inf = dropped  # type: ignore[attr-defined]
        self._apply()
        self._buffers.put_back_if(dropped)
        return Update(dropped, clipped, nonfinite)


def _keep_drawing(_: int) -> None:
    """The generators go on as they are."""


def no_reader() -> None:
    """Nothing to wait for: no copy of the weights is made while the step runs."""


def no_limit() -> float:
    """No loss limit: the default before any rollback."""
    return math.inf


def above(loss: Tensor, limit: float, dropped: Tensor) -> Tensor:
    """`dropped`, or 1 where the loss is above the limit, without reading a number."""
    if limit == math.inf:
        return dropped
    return torch.maximum(dropped, (loss > limit).to(torch.float32))


def root_of(loss_sum: Tensor, targets: int) -> Tensor:
    """1 / targets, the root gradient of the backward pass of a summed loss.

    Raises:
        Mistake: not a sum, or a sum in 16 bits, in which 1 / targets is off by up to 0.4%.
    """
    if loss_sum.numel() != 1:
        raise no_loss_sum(f"a tensor of shape {list(loss_sum.shape)} as the sum")
    if loss_sum.dtype in SHORT:
        raise short_loss_sum(str(loss_sum.dtype).removeprefix("torch."))
    return torch.full_like(loss_sum, 1 / targets)


def _as_loss_sum(given: object) -> LossSum:
    """A pair as a sum and a count; anything else is rejected before it is trained on."""
    if isinstance(given, tuple) and len(given) == 2:
        return LossSum(*given)
    raise no_loss_sum(f"{type(given).__name__}")
