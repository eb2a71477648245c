"""Kept trees that were edited, hashes and all, are never gone on from in silence."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from trainwright.contract.sections.model.trees import Boosting
from trainwright.data.base.inputs import TableInputs
from trainwright.model.boosting.boosting_callbacks import curve_trees
from trainwright.model.boosting.lightgbm_dataset import BoostingRows, read_grown
from trainwright.model.boosting.lightgbm_fit import BoostingJob, fit_boosting
from trainwright.model.tree_growth import CurvePoint, Grown, OtherTrees, RuleEnding, Watching


def _job() -> BoostingJob:
    generator = np.random.default_rng(3)
    numeric = generator.normal(size=(300, 3)).astype(np.float32)
    rows = BoostingRows(
        TableInputs(numeric, np.zeros((300, 0), np.int64)), (numeric[:, 0] > 0).astype(int)
    )
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


@pytest.mark.parametrize(
    "value",
    [
        ["interrupted", "later"],
        ["halted", "by hand"],
        ["unknown", "why"],
        ["early"],
        ["early", None],
        ["early", "why", 1],
        {"early": 1, "why": 2},
        [["early"], "why"],
        "early",
        True,
        [],
    ],
)
def test_an_ending_by_a_rule_that_was_not_written_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="ended_by"):
        read_grown({**_done().to_json(), "ended_by": value}, 2)


def test_an_ending_by_a_rule_is_one_of_done_trees() -> None:
    ending = {"ended_by": ["early", "why"]}
    assert read_grown({**_done().to_json(), **ending}, 2).ended_by == RuleEnding("early", "why")
    with pytest.raises(ValueError, match="not done"):
        read_grown({**_kept()[1].to_json(), **ending}, 2)


def test_trees_of_versions_that_kept_no_ending_by_a_rule_are_read() -> None:
    written = _done().to_json()
    del written["ended_by"]
    assert read_grown(written, 2) == _done()


def _long() -> tuple[BoostingJob, Grown]:
    """Noisy rows, and trees that are kept after the best one."""
    generator = np.random.default_rng(4)

    def rows() -> BoostingRows:
        numeric = generator.normal(size=(300, 3)).astype(np.float32)
        noisy = (numeric[:, 0] + 2 * generator.normal(size=300) > 0).astype(int)
        return BoostingRows(TableInputs(numeric, np.zeros((300, 0), np.int64)), noisy)

    settings: dict[str, float] = {"max_trees": 60, "num_leaves": 8, "learning_rate": 0.3}
    settings["early_stopping_rounds"] = 50
    section = Boosting.model_validate({"kind": "boosting", **settings})
    job = BoostingJob(section, rows(), rows(), 2, seed=7, threads=1)
    keeper = _Every()
    fit_boosting(job, Watching(keeper=keeper))
    kept = [read_grown(json.loads(text), 2) for text in keeper.kept]
    found = next(one for one in kept if one.trees == 30)
    assert 3 < found.best_trees < 25
    return job, found


def _edited_curve(grown: Grown, **values: float) -> tuple[CurvePoint, ...]:
    return (grown.curve[0], replace(grown.curve[1], **values), *grown.curve[2:])


@pytest.mark.extended
def test_a_best_tree_that_was_moved_is_seen() -> None:
    job, grown = _long()
    whole = fit_boosting(job).booster.model_to_string()
    assert fit_boosting(job, before=grown).booster.model_to_string() == whole
    later = replace(grown, best_trees=29, best_round=29)
    edits = {
        "the best of 30 kept trees": [
            later,
            replace(later, best_value=grown.value),
            replace(grown, best_value=0.9 * grown.best_value),
            replace(grown, best_round=grown.best_round + 1),
            replace(grown, best_trees=0, best_round=0),
        ],
        "the validation value of the last kept tree": [replace(grown, value=grown.best_value)],
    }
    for what, each in edits.items():
        for edited in each:
            with pytest.raises(OtherTrees, match=what):
                fit_boosting(job, before=edited)


def test_a_curve_that_was_drawn_otherwise_is_seen() -> None:
    job, grown = _long()
    edits = {
        "validation value of kept tree 11": _edited_curve(grown, validation=0.5),
        "curve": grown.curve[1:],
        "the curve": (*grown.curve[::-1],),
    }
    for what, curve in edits.items():
        with pytest.raises(OtherTrees, match=what):
            fit_boosting(job, before=replace(grown, curve=curve))
    with pytest.raises(OtherTrees, match="curve"):
        fit_boosting(job, before=replace(grown, next_point=grown.next_point + 1))


def test_points_of_the_curve_stand_where_growing_puts_them() -> None:
    _, grown = _long()
    assert curve_trees(30, closed=False) == ([point.trees for point in grown.curve], 31.0)
    assert curve_trees(100, closed=False) == ([1, 11, 21, 31, 41, 51, 62, 75, 90], 108.0)
    assert curve_trees(100, closed=True)[0][-2:] == [90, 100]


def test_an_interruption_while_values_are_computed_leaves_what_was_kept() -> None:
    job, grown = _long()
    keeper = _Every()
    fitted = fit_boosting(job, Watching(is_interrupted=lambda: True, keeper=keeper), grown)
    assert (fitted.trees, keeper.kept) == (grown.best_trees, [])
