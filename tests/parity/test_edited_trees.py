"""Kept trees that were edited, hashes and all, are never gone on from in silence."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from trainwright.contract.model import Boosting
from trainwright.data.table import TableInputs
from trainwright.model.boosting import BoostingJob, Rows, fit_boosting
from trainwright.model.growing import OtherTrees, Watching
from trainwright.model.grown import Grown, read_grown


def _job() -> BoostingJob:
    generator = np.random.default_rng(3)
    numeric = generator.normal(size=(300, 3)).astype(np.float32)
    rows = Rows(TableInputs(numeric, np.zeros((300, 0), np.int64)), (numeric[:, 0] > 0).astype(int))
    section = Boosting.model_validate({"kind": "boosting", "max_trees": 6, "num_leaves": 4})
    return BoostingJob(section, rows, rows, 2, seed=7, threads=1)


class _Every:
    """Keeps the trees of each round."""

    def __init__(self) -> None:
        self.kept: list[str] = []

    def is_due(self) -> bool:
        return True

    def keep(self, grow: object) -> None:
        assert callable(grow)
        self.kept.append(json.dumps(grow().to_json()))


def _kept() -> list[Grown]:
    keeper = _Every()
    fit_boosting(_job(), Watching(keeper=keeper))
    return [read_grown(json.loads(text), 2) for text in keeper.kept]


def _done() -> Grown:
    grown = _kept()[-1]
    assert grown.is_done
    return grown


def test_leaves_of_a_finished_growing_that_were_changed_are_seen() -> None:
    grown = _done()
    leaves = re.search(r"leaf_value=([^\n]*)", grown.text)
    assert leaves is not None
    new = " ".join("5.0000" for _ in leaves[1].split())
    text = grown.text.replace(leaves[0], f"leaf_value={new}")
    sizes = [len(tree) for tree in re.findall(r"Tree=\d+\n.*?\n\n\n", text, re.DOTALL)]
    sizes_text = f"tree_sizes={' '.join(map(str, sizes))}"
    text = re.sub(r"tree_sizes=[^\n]*", sizes_text, text)
    edited = read_grown({**grown.to_json(), "text": text}, 2)
    with pytest.raises(OtherTrees):
        fit_boosting(_job(), before=edited)


def test_a_growing_that_says_it_is_finished_is_proven_too() -> None:
    grown = _done()
    with pytest.raises(OtherTrees):
        fit_boosting(_job(), before=replace(grown, value=0.0))


@pytest.mark.parametrize("name", ["tweedie_variance_power", "max_bin"])
def test_parameters_behind_the_trees_are_not_taken_up(name: str) -> None:
    grown = _kept()[1]
    assert not grown.is_done
    text = re.sub(rf"\[{name}: [^\]]*\]", f"[{name}: -1]", grown.text)
    assert text != grown.text
    edited = read_grown({**grown.to_json(), "text": text}, 2)
    assert fit_boosting(_job(), before=edited).trees == fit_boosting(_job()).trees


@pytest.mark.parametrize(
    ("name", "value"), [("is_done", 1), ("is_done", "no"), ("is_done", None), ("next_point", "nan")]
)
def test_state_of_a_wrong_kind_is_refused(name: str, value: object) -> None:
    with pytest.raises(ValueError, match=r"what was written|not a number"):
        read_grown({**_done().to_json(), name: value}, 2)
