"""A model text with one index or size changed is refused before LightGBM sees it."""

from __future__ import annotations

import re
from functools import cache

import lightgbm
import numpy as np
import pytest

from trainwright.model.boosting.lightgbm_text import BadModelText, check_model_text

_PARAMETERS = {
    1: (
        {"objective": "regression_l2"},
        {"objective": "quantile", "alpha": 0.3},
        {"objective": "poisson"},
    ),
    2: ({"objective": "binary"},),
    3: ({"objective": "multiclass", "num_class": 3},),
}


@cache
def model(outputs: int, which: int = 0, trees: int = 4, leaves: int = 6) -> str:
    random = np.random.default_rng(0)
    rows = random.normal(size=(600, 4))
    rows[:, 2] = random.integers(0, 40, 600)
    target = np.clip((rows[:, 0] > 0).astype(int) + (rows[:, 2] > 20), 0, max(outputs - 1, 2))
    target = np.minimum(target, outputs - 1) if outputs > 1 else target
    section = {**_PARAMETERS[outputs][which], "verbosity": -1, "num_leaves": leaves}
    data = lightgbm.Dataset(rows, label=target, categorical_feature=[2])
    return str(lightgbm.train(section, data, num_boost_round=trees).model_to_string())


@pytest.mark.parametrize(
    ("outputs", "which"),
    [(outputs, at) for outputs, all_ in _PARAMETERS.items() for at in range(len(all_))],
)
def test_what_lightgbm_wrote_is_good(outputs: int, which: int) -> None:
    check_model_text(model(outputs, which), outputs)
    read_back = lightgbm.Booster(model_str=model(outputs, which))
    check_model_text(read_back.model_to_string(num_iteration=2), outputs)


def test_trees_of_a_single_leaf_are_good() -> None:
    rows = np.zeros((100, 2))
    data = lightgbm.Dataset(rows, label=np.arange(100.0))
    text = lightgbm.train({"verbosity": -1}, data, num_boost_round=2).model_to_string()
    check_model_text(text, 1)


def resized(text: str) -> str:
    """The text with its tree sizes written anew, as an attacker would."""
    body = text[text.index("\nTree=0") + 1 : text.index("end of trees")]
    blocks = re.findall(r"Tree=[0-9]+\n.*?\n\n(?=Tree=|\Z)", body, re.DOTALL)
    sizes = " ".join(str(len(block.encode())) for block in blocks)
    return re.sub(r"tree_sizes=[^\n]*", f"tree_sizes={sizes}", text)


CHANGES = {
    "a feature that is not there": (r"split_feature=\d+", "split_feature=99999"),
    "a negative feature": (r"split_feature=\d+", "split_feature=-7"),
    "a child far away": (r"left_child=-?\d+", "left_child=500000"),
    "a leaf far away": (r"right_child=-?\d+", "right_child=-500000"),
    "a child that is its own parent": (r"left_child=-?\d+", "left_child=0"),
    "many leaves": (r"num_leaves=\d+", "num_leaves=2000000000"),
    "no leaves": (r"num_leaves=\d+", "num_leaves=0"),
    "negative leaves": (r"num_leaves=\d+", "num_leaves=-5"),
    "a lost leaf": (r"leaf_value=\S+ ", "leaf_value="),
    "many categories": (r"num_cat=[1-9]\d*", "num_cat=100000"),
    "boundaries that go far": (r"cat_boundaries=0 \d+", "cat_boundaries=0 900000"),
    "boundaries that go back": (r"cat_boundaries=0 ", "cat_boundaries=-4 "),
    "a linear tree": (r"is_linear=0", "is_linear=1"),
    "many classes": (r"num_class=\d+", "num_class=1000000"),
    "many trees a round": (r"num_tree_per_iteration=\d+", "num_tree_per_iteration=0"),
    "few features": (r"max_feature_idx=\d+", "max_feature_idx=0"),
    "features below zero": (r"max_feature_idx=\d+", "max_feature_idx=-2"),
    "an objective of other classes": (r"objective=[^\n]*", "objective=multiclass num_class:90000"),
    "an unknown objective": (r"objective=[^\n]*", "objective=custom"),
    "no number": (r"threshold=\S+", "threshold=x"),
    "a huge number": (r"split_feature=\d+", "split_feature=99999999999999999999999"),
    "another kind of split": (r"decision_type=\d+", "decision_type=77"),
    "a tree too far": (r"tree_sizes=\d+", "tree_sizes=99999999"),
    "a name twice": (r"shrinkage=", "num_leaves=3\nshrinkage="),
    "another version": (r"version=v4", "version=v9"),
}


@pytest.mark.row("F-45")
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("outputs", [2, 3])
def test_a_hostile_text_is_refused(change: str, outputs: int) -> None:
    pattern, hostile = CHANGES[change]
    text = re.sub(pattern, hostile, model(outputs), count=1)
    assert text != model(outputs)
    if "tree_sizes" not in pattern:
        text = resized(text)
    with pytest.raises(BadModelText):
        check_model_text(text, outputs)


@pytest.mark.row("F-45")
def test_boundaries_whose_difference_wraps_are_refused() -> None:
    """Each difference in int64 is positive, and the last boundary right."""
    draw = np.random.default_rng(0)
    codes = draw.integers(0, 40, (900, 1))
    data = lightgbm.Dataset(codes, label=draw.normal(size=40)[codes[:, 0]], categorical_feature=[0])
    text = lightgbm.train({"verbosity": -1}, data, num_boost_round=2).model_to_string()
    check_model_text(text, 1)
    found = re.search(r"cat_boundaries=0((?: \d+){2,}) (\d+)\n", text)
    assert found
    rest = found[1].split()[2:]
    hostile = " ".join(["0", str(2**63 - 1), "-2", *rest, found[2]])
    changed = text.replace(found[0], f"cat_boundaries={hostile}\n", 1)
    with pytest.raises(BadModelText, match="cat_boundaries"):
        check_model_text(resized(changed), 1)


@pytest.mark.row("F-45")
def test_any_cut_or_changed_text_is_refused_or_can_be_scored() -> None:
    """LightGBM itself ends the process on such texts: this test would not come to its end."""
    random, text = np.random.default_rng(1), model(3)
    rows, refused = random.normal(size=(5, 4)), 0
    end = text.index("end of trees")
    for _ in range(300):
        at = int(random.integers(0, end))
        changed = text[:at] + "0123456789- \n=x"[int(random.integers(15))] + text[at + 1 :]
        changed = (
            resized(changed) if random.random() < 0.7 else changed[: int(random.integers(end))]
        )
        try:
            check_model_text(changed, 3)
        except BadModelText:
            refused += 1
            continue
        lightgbm.Booster(model_str=changed).predict(rows, num_threads=1)
    assert refused > 100
