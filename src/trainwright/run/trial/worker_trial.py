"""Gain from loader processes on this machine, measured with the model to train. Needs torch."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import final

import torch

from trainwright.contract.sections.section import settled
from trainwright.data.loading.batch import Batch
from trainwright.data.loading.feed import Feed
from trainwright.data.types import Prepared
from trainwright.engine.execution.precision import build_precision, run_backward
from trainwright.planner.plan import Plan
from trainwright.planner.resolve.compute_choices import Making
from trainwright.run.trial.rehearse import build_rehearsed

_TURNS, _TURN_SECONDS, _PASSES = 2, 1.0, 5


@final
class Rehearsal:
    """Forward and backward passes of a network with its initial weights over its own batches, with
    and without workers."""

    def __init__(self, plan: Plan, prepared: Prepared) -> None:
        training = plan.contract.training
        self._run = build_rehearsed(plan, prepared, torch.device("cpu"))
        model = self._run.model
        self._run.lay_out(settled(training.compute.memory_format))
        self._precision = build_precision(
            settled(training.mixed_precision), model, self._run.device
        )

    def making(self) -> Making:
        """Minimum of several timings."""
        feed = self._run.feed(0)
        training = self._run.contract.training
        rows = settled(training.batch_size)
        made, passed = [], []
        for _ in range(_PASSES):
            started = time.perf_counter()
            batch = next(feed.from_start(rows))
            middle = time.perf_counter()
            self._pass(batch)
            made.append(middle - started)
            passed.append(time.perf_counter() - middle)
        run = min(made) / len(batch[0]) * feed.rows * settled(training.num_epochs)
        return Making(min(made), min(passed), run)

    def rows_per_second(self, counts: Sequence[int]) -> Mapping[int, float]:
        """Maximum over several rounds, which suppresses other load on the machine."""
        rates = dict.fromkeys(counts, 0.0)
        for _ in range(_TURNS):
            for count in counts:
                with closing(self._run.feed(count)) as feed:
                    rates[count] = max(rates[count], self._rate(feed))
        return rates

    def _rate(self, feed: Feed) -> float:
        # The first block waits for the processes to start, which a run does once.
        for batch in feed.next_step().micro_batches:
            self._pass(batch)
        rows, started = 0, time.perf_counter()
        while (seconds := time.perf_counter() - started) < _TURN_SECONDS:
            work = feed.next_step()
            for batch in work.micro_batches:
                self._pass(batch)
            rows += work.rows
        return rows / seconds

    def _pass(self, batch: Batch) -> None:
        model = self._run.model
        model.zero_grad(set_to_none=True)
        with self._precision.forward():
            loss_sum, count = self._run.objective(model, batch)
        run_backward((loss_sum,), (torch.full_like(loss_sum, 1 / count),))
