"""Benchmark of execution variants of a training step, on the machine that will train."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import NamedTuple, final

import torch
from torch import Tensor, nn

from trainwright.checkpoint.states.random_state import RandomState
from trainwright.data.loading.batch import Batch
from trainwright.engine.execution.kernel_settings import matrix_products
from trainwright.engine.execution.precision import Precision, run_backward
from trainwright.objective.losses import Objective

TURNS, FEWEST_TURNS = 5, 2
"""Maximum number of rounds in which each variant is timed once, and the minimum."""

LIMIT_SECONDS = 6.0
"""No further round starts after this many seconds."""

_HOPELESS, _LOWER = 2.0, 0.98
_MATRICES, _MATRIX_ROWS = 3, 256


@final
@dataclass(frozen=True, slots=True)
class Way:
    """Execution variant of a step. `prepare` runs before each round, untimed; `kernels` opens the
    process settings of the variant."""

    objective: Objective
    precision: Precision
    kernels: Callable[[], AbstractContextManager[None]]
    prepare: Callable[[], None]


class Seconds(NamedTuple):
    """Time of a forward and backward pass: CPU time (on a GPU wall time), and wall time."""

    used: float
    passed: float


_NEVER = Seconds(math.inf, math.inf)


@final
@dataclass(slots=True)
class Tried:
    """Result of a variant. `loss` is the mean over the targets and `norm` the norm of its gradient,
    at the current weights in evaluation mode. `failure` is empty if the variant works."""

    seconds: Seconds = _NEVER
    loss: float = math.nan
    norm: float = math.nan
    failure: str = ""


@final
class Trials:
    """Times forward and backward passes of a model over one micro-batch, in several variants.

    The variants are interleaved, so that other load on the machine slows all of them alike, and the
    minimum time of each counts. The first pass of each is a warm-up for kernel selection and memory
    allocation, and is never timed. A variant that takes more than twice the minimum is dropped
    after the second round. The benchmark ends after a round, from the second on, in which no
    minimum falls by 2%: another would change little, and a run is waiting for it. Weights and
    random numbers are preserved; BatchNorm statistics move, so the model should not be one that is
    trained.
    """

    def __init__(
        self, model: nn.Module, batch: Batch, limit_seconds: float = LIMIT_SECONDS
    ) -> None:
        self._limit = limit_seconds
        self._model = model
        self._batch = batch
        self._device = next(model.parameters()).device

    def compare(self, ways: Sequence[Way]) -> list[Tried]:
        """Time each variant, with its loss and gradient norm."""
        tried = [Tried() for _ in ways]
        with self._leaving_all_as_found():
            for way, one in zip(ways, tried, strict=True):
                with _noting(one):
                    one.loss, one.norm = self._first_numbers(way)
            self._take_turns(ways, tried)
        return tried

    def times(self, ways: Sequence[Way]) -> list[Tried]:
        """Time each variant, without its loss and norm."""
        tried = [Tried() for _ in ways]
        with self._leaving_all_as_found():
            for way, one in zip(ways, tried, strict=True):
                with _noting(one):
                    way.prepare()
                    self._pass(way)
            self._take_turns(ways, tried)
        return tried

    def first_and_next(self, way: Way) -> tuple[float, Tried]:
        """Wall time of a variant's first pass, which compiles it, and its times afterwards."""
        tried, first = Tried(), math.inf
        with self._leaving_all_as_found(), _noting(tried):
            first = self._seconds(way).passed
            seconds = [self._seconds(way) for _ in range(TURNS)]
            tried.seconds = Seconds(*map(min, zip(*seconds, strict=True)))
        return first, tried

    def _take_turns(self, ways: Sequence[Way], tried: Sequence[Tried]) -> None:
        started, falls = time.perf_counter(), True
        for turn in range(TURNS):
            is_late = time.perf_counter() - started > self._limit
            if turn >= FEWEST_TURNS and (is_late or not falls):
                break
            before = [one.seconds.used for one in tried]
            for way, one in zip(ways, tried, strict=True):
                is_hopeless = turn >= FEWEST_TURNS and one.seconds.used > _HOPELESS * min(before)
                if one.failure or is_hopeless:
                    continue
                with _noting(one):
                    seconds = self._seconds(way)
                    one.seconds = Seconds(*map(min, zip(one.seconds, seconds, strict=True)))
            after = [one.seconds.used for one in tried]
            falls = any(now < _LOWER * was for now, was in zip(after, before, strict=True))

    def _first_numbers(self, way: Way) -> tuple[float, float]:
        way.prepare()
        self._model.eval()
        loss = self._pass(way)
        self._model.train()
        gradients = [p.grad for p in self._model.parameters() if p.grad is not None]
        return loss.item(), torch.nn.utils.get_total_norm(gradients).item()

    def _seconds(self, way: Way) -> Seconds:
        way.prepare()
        self._wait()
        used, passed = time.process_time(), time.perf_counter()
        self._pass(way)
        self._wait()
        used, passed = time.process_time() - used, time.perf_counter() - passed
        return Seconds(used if self._device.type == "cpu" else passed, passed)

    def _pass(self, way: Way) -> Tensor:
        """Mean loss; the gradients are recomputed."""
        self._model.zero_grad(set_to_none=True)
        with way.kernels():
            with way.precision.forward():
                loss_sum, count = way.objective(self._model, self._batch)
            run_backward((loss_sum,), (torch.full_like(loss_sum, 1 / count),))
        return loss_sum.detach() / count

    def _wait(self) -> None:
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)

    @contextmanager
    def _leaving_all_as_found(self) -> Iterator[None]:
        numbers, training = RandomState().snapshot(), self._model.training
        self._model.train()
        try:
            yield
        finally:
            self._model.zero_grad(set_to_none=True)
            self._model.train(training)
            RandomState().restore(numbers)


@contextmanager
def _noting(tried: Tried) -> Iterator[None]:
    """A variant that fails is excluded: no kernel for it, no compiler, no memory."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        lines = str(error).strip().splitlines()
        tried.failure = lines[0] if lines else type(error).__name__


def product_error(model: nn.Module) -> float:
    """Largest relative error, in the Frobenius norm, of oneDNN's fp32 products of matrices like
    those of the model, against fp64: for its largest linear layers, forward and weight
    gradients."""
    weights = {tuple(m.weight.shape) for m in model.modules() if isinstance(m, nn.Linear)}
    draw = torch.Generator().manual_seed(0)
    errors = [0.0]
    for outputs, inputs in sorted(weights, key=math.prod)[-_MATRICES:]:
        x = torch.randn(_MATRIX_ROWS, inputs, generator=draw)
        weight = torch.randn(inputs, outputs, generator=draw)
        back = torch.randn(_MATRIX_ROWS, outputs, generator=draw)
        for one, two in ((x, weight), (x.t(), back)):
            exact = one.double() @ two.double()
            with matrix_products("onednn"):
                found = one @ two
            errors.append(float((found - exact).norm() / exact.norm()))
    return max(errors)
