"""Prepared rows of a contract, for several trainings and for models of other libraries."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self, final

import polars as pl

from trainwright.contract.reading.read_contract import Sections, file_or_text
from trainwright.core.errors import NotAvailable, Problem
from trainwright.core.process import code_allowed
from trainwright.core.threads import own_threads
from trainwright.data.base.inputs import Part
from trainwright.data.sources.frames import Frame
from trainwright.planner.plan import Plan
from trainwright.run.measured_choices import settle
from trainwright.run.prepare.prepare_run import Ready, make_ready, plan_again
from trainwright.run.request import Request
from trainwright.run.screen import Screen, StageTimes, StreamScreen


@final
@dataclass(frozen=True, slots=True)
class LabelledRows:
    """Rows of one part: features as a typed frame, and the target in its original form."""

    features: pl.DataFrame
    target: pl.Series


@final
@dataclass(frozen=True, slots=True)
class PreparedData:
    """Rows of a contract, split as it says. The test rows stay closed until `judge` opens them.

    `plans` are those of the contracts that were fitted to these rows, by their hash.
    """

    ready: Ready
    request: Request
    plans: dict[str, Plan] = field(default_factory=dict)

    @classmethod
    def of(cls, request: Request, screen: Screen) -> Self:
        """Read and prepare the data of a request."""
        return cls(make_ready(request, StageTimes(request.asked_at), screen), request)

    def planned(self, request: Request, stages: StageTimes, screen: Screen) -> Ready:
        """The same rows with the plan of a request, everything measured that it leaves open; what
        was planned and measured before is taken from there.

        Raises:
            Mistake: in the contract, or it prepares the rows otherwise.
        """
        ready = self.ready
        if tuple(request.overrides) != tuple(self.request.overrides):
            ready = plan_again(ready, request)
        if request.resume:
            return settle(request, ready, stages, screen)
        key = ready.plan.hash
        if key not in self.plans:
            self.plans[key] = settle(request, ready, stages, screen).plan
        return replace(ready, plan=self.plans[key])

    @property
    def train(self) -> LabelledRows:
        """Training rows."""
        return labelled_rows(self.ready, self.ready.prepared.train)

    @property
    def validation(self) -> LabelledRows:
        """Rows that may steer the training."""
        return labelled_rows(self.ready, self.ready.prepared.validation)

    @property
    def classes(self) -> tuple[str, ...]:
        """Classes in the order of the probabilities; empty for a numeric target."""
        return self.ready.prepared.target.classes

    def __repr__(self) -> str:
        prepared = self.ready.prepared
        parts = (prepared.train, prepared.validation, prepared.test)
        rows = " / ".join(f"{len(part):,}" for part in parts)
        return f"PreparedData({prepared.target.column}, train / validation / test {rows})"


def prepare(
    contract: str | Path | Sections,
    *,
    overrides: Sequence[str] = (),
    frames: Mapping[str, Frame] | None = None,
    allow_code: bool = False,
) -> PreparedData:
    """Read, split and encode the rows of a contract: for `fit`, or for a model of any library that
    `judge` holds to the contract. Writes nothing.

    Args:
        contract: as for `train`.
        overrides: replaced values, each as `"data.target=label"`.
        frames: rows in memory, as for `train`.
        allow_code: as for `train`; `fit` and `judge` of the rows need it again.

    Raises:
        Mistake: contract or data are wrong, every problem at once.
    """
    request = Request(file_or_text(contract), tuple(overrides), frames=dict(frames or {}))
    with code_allowed(allow_code), own_threads():
        return PreparedData.of(request, StreamScreen(sys.stderr))


def labelled_rows(ready: Ready, part: Part) -> LabelledRows:
    """Typed features of a part, and its target as labels or numbers.

    Raises:
        NotAvailable: the data is no table.
    """
    if not ready.plan.contract.data.reads_frames:
        what = "only a table has rows for a model of one's own: these are fitted by `fit`"
        raise NotAvailable(Problem(what, "data.kind"))
    names = [column.name for column in ready.raw.facts.columns if column.kind != "ignored"]
    target = ready.prepared.target
    labels = target.decode(part.target).alias(target.column)
    return LabelledRows(part.frame.select(names), labels)
