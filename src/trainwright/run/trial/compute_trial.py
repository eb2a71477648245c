"""Benchmark of a plan's execution variants, on its own model and batches.

Needs torch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import final

import torch
from torch import nn

from trainwright.contract.sections.run_settings import Determinism
from trainwright.contract.sections.section import settled
from trainwright.data.loading.batch import Batch
from trainwright.data.types import Prepared
from trainwright.engine.execution.compile import CompiledObjective, compiling
from trainwright.engine.execution.kernel_settings import (
    MatrixProducts,
    deterministic,
    matrix_products,
)
from trainwright.engine.execution.precision import build_precision
from trainwright.engine.execution.step_benchmark import (
    LIMIT_SECONDS,
    Trials,
    Tried,
    Way,
    product_error,
)
from trainwright.model.family import MemoryFormat
from trainwright.objective.losses import Objective
from trainwright.planner.compute_trials import CompiledTiming, ComputeSetting, Failed, Timing
from trainwright.planner.plan import Plan
from trainwright.run.compose.compose_feed import count_widths, trial_batch
from trainwright.run.trial.rehearse import build_rehearsed

_SHARE = 0.02
"""Share of a budget for further rounds."""


@final
class ModelTrial:
    """A model and a training batch, timed in several settings; `lay_out` sets its memory layout.
    Compiled kernels are made for each of `widths`."""

    def __init__(
        self,
        model: nn.Module,
        objective: Objective,
        batch: Batch,
        level: Determinism,
        limit_seconds: float = LIMIT_SECONDS,
        lay_out: Callable[[MemoryFormat], None] = lambda _: None,
        widths: int = 1,
    ) -> None:
        self._widths = widths
        self._model = model
        self._lay_out = lay_out
        self._objective = objective
        self._level = level
        self._device = next(model.parameters()).device
        self._trials = Trials(model, batch, limit_seconds)

    def product_error(self) -> float:
        """Error of oneDNN's products, on matrices like the model's."""
        return product_error(self._model)

    def time(self, settings: Sequence[ComputeSetting]) -> Mapping[ComputeSetting, Timing | Failed]:
        """Time each setting, interleaved."""
        tried = self._trials.compare([self._way(setting, self._level) for setting in settings])
        return {setting: _timing(one) for setting, one in zip(settings, tried, strict=True)}

    def without_determinism(
        self, setting: ComputeSetting
    ) -> tuple[Timing | Failed, Timing | Failed]:
        """The setting with the plan's determinism, and without any."""
        ways = [self._way(setting, self._level), self._way(setting, "off")]
        one, other = self._trials.times(ways)
        return _timing(one), _timing(other)

    def compile(self, setting: ComputeSetting) -> CompiledTiming | Failed:
        """The setting with compiled kernels."""
        with compiling("on"), deterministic(self._level, compiled=True):
            way = self._way(setting, self._level, CompiledObjective(self._objective))
            first, tried = self._trials.first_and_next(way)
        if tried.failure:
            return Failed(tried.failure)
        return CompiledTiming(tried.seconds.passed, first * self._widths)

    def _way(
        self, setting: ComputeSetting, level: Determinism, objective: Objective | None = None
    ) -> Way:
        return Way(
            objective or self._objective,
            build_precision(setting.precision, self._model, self._device),
            partial(_kernels, setting, level),
            partial(self._lay_out, setting.memory_format),
        )


def build_trial(plan: Plan, prepared: Prepared) -> ModelTrial:
    """Trial of a plan: its network with the initial weights, and the first micro-batch of its
    training. Random numbers are preserved."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    rehearsed = build_rehearsed(plan, prepared, device)
    feed = rehearsed.feed(0)
    batch = trial_batch(rehearsed.contract, feed)
    level: Determinism = settled(plan.contract.resume.determinism)
    limit = min(LIMIT_SECONDS, _SHARE * plan.contract.budget.seconds())
    return ModelTrial(
        rehearsed.model,
        rehearsed.objective,
        batch,
        level,
        limit,
        rehearsed.lay_out,
        count_widths(feed),
    )


@contextmanager
def _kernels(setting: ComputeSetting, level: Determinism) -> Iterator[None]:
    products: MatrixProducts = "tf32" if setting.precision == "tf32" else setting.matrix_products
    with deterministic(level), matrix_products(products):
        yield


def _timing(tried: Tried) -> Timing | Failed:
    if tried.failure:
        return Failed(tried.failure)
    return Timing(tried.seconds.used, tried.seconds.passed, tried.loss, tried.norm)
