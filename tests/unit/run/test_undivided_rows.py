"""Rows as they were before they were divided take no memory beside a training."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from command import project_in, train_one
from trainwright.data.read_table import RawTable
from trainwright.planner.plan import Plan
from trainwright.run import train
from trainwright.run.learners.learner import Learner
from trainwright.run.prepare.prepare_run import Ready, make_ready
from trainwright.run.repeats.train_folds import learner_of


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    yield from project_in(tmp_path)


@pytest.mark.extended
@pytest.mark.parametrize(
    ("folds", "held"), [((), False), (("data.split={kind: stratified, folds: 3}",), True)]
)
def test_only_folds_keep_them(
    folds: tuple[str, ...], held: bool, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[weakref.ref[pl.DataFrame]] = []
    found: list[bool] = []

    def made(*given: Any) -> Ready:
        ready = make_ready(*given)
        assert isinstance(ready.raw, RawTable)
        read.append(weakref.ref(ready.raw.frames["train"]))
        return ready

    def looked(plan: Plan) -> Learner:
        gc.collect()
        found.append(read[0]() is not None)
        return learner_of(plan)

    monkeypatch.setattr(train, "make_ready", made)
    monkeypatch.setattr(train, "learner_of", looked)
    assert project.is_dir()
    train_one(*folds)
    assert found == [held]
