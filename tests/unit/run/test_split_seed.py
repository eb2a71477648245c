"""The split has a seed of its own: other seeds are judged on the same rows."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

import pytest

from command import CONTRACT, write_project
from trainwright.data.types import Prepared
from trainwright.run.prepare.prepare_run import make_ready
from trainwright.run.request import Request
from trainwright.run.screen import StageTimes, StreamScreen

SPLITS = [
    "data.split.validation=0.2",
    "data.split={kind: random, key: '*'}",
    "data.split.folds=3",
]


def parts(prepared: Prepared) -> list[list[int]]:
    return [part.rows.tolist() for part in (prepared.train, prepared.validation, prepared.test)]


def prepared(folder: Path, settings: Sequence[str]) -> Prepared:
    request = Request(folder / "small.yaml", settings, folder / "runs")
    return make_ready(request, StageTimes(), StreamScreen(io.StringIO())).prepared


@pytest.mark.parametrize("split", SPLITS)
def test_the_seed_moves_no_row_and_the_split_seed_does(split: str, tmp_path: Path) -> None:
    write_project(tmp_path, CONTRACT)
    usual = prepared(tmp_path, [split])
    other = prepared(tmp_path, [split, "seed=1"])
    assert parts(other) == parts(usual)
    assert other.version == usual.version
    drawn = prepared(tmp_path, [split, "split_seed=1"])
    assert parts(drawn) != parts(usual)
