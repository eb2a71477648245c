"""The text of a LightGBM model is refused if one of its indices or sizes cannot be right: LightGBM
trusts all of them. They are changed once an honest text is parsed, so no such text is written."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import lightgbm
import numpy as np
import pytest

from trainwright.model.boosting import lightgbm_text
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


def change_parsed(monkeypatch: pytest.MonkeyPatch, name: str, pattern: str, value: str) -> None:
    """Change what the check reads of a field, wherever it has one that the pattern finds."""
    parse = lightgbm_text._fields

    def changed(*given: Any) -> dict[str, str]:
        fields = parse(*given)
        if name in fields:
            fields[name] = re.sub(pattern, value, fields[name], count=1)
        return fields

    monkeypatch.setattr(lightgbm_text, "_fields", changed)


CHANGES = {
    "a feature that is not there": ("split_feature", r"^\d+", "99999"),
    "a negative feature": ("split_feature", r"^\d+", "-7"),
    "a child far away": ("left_child", r"^-?\d+", "500000"),
    "a leaf far away": ("right_child", r"^-?\d+", "-500000"),
    "a child that is its own parent": ("left_child", r"^-?\d+", "0"),
    "many leaves": ("num_leaves", r"\d+", "2000000000"),
    "no leaves": ("num_leaves", r"\d+", "0"),
    "negative leaves": ("num_leaves", r"\d+", "-5"),
    "a lost leaf": ("leaf_value", r"^\S+ ", ""),
    "many categories": ("num_cat", r"[1-9]\d*", "100000"),
    "boundaries that go far": ("cat_boundaries", r"^0 \d+", "0 900000"),
    "boundaries that go back": ("cat_boundaries", r"^0 ", "-4 "),
    "a linear tree": ("is_linear", r"0", "1"),
    "many classes": ("num_class", r"\d+", "1000000"),
    "many trees a round": ("num_tree_per_iteration", r"\d+", "0"),
    "few features": ("max_feature_idx", r"\d+", "0"),
    "features below zero": ("max_feature_idx", r"\d+", "-2"),
    "an objective of other classes": ("objective", r".+", "multiclass num_class:90000"),
    "an unknown objective": ("objective", r".+", "custom"),
    "no number": ("threshold", r"^\S+", "x"),
    "a huge number": ("split_feature", r"^\d+", "99999999999999999999999"),
    "another kind of split": ("decision_type", r"^\d+", "77"),
    "a tree too far": ("tree_sizes", r"^\d+", "99999999"),
}


@pytest.mark.row("F-45")
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("outputs", [2, 3])
def test_what_cannot_be_right_is_refused(
    change: str, outputs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_model_text(model(outputs), outputs)
    change_parsed(monkeypatch, *CHANGES[change])
    with pytest.raises(BadModelText):
        check_model_text(model(outputs), outputs)


def resized(text: str) -> str:
    """The text with its tree sizes written anew."""
    body = text[text.index("\nTree=0") + 1 : text.index("end of trees")]
    blocks = re.findall(r"Tree=[0-9]+\n.*?\n\n(?=Tree=|\Z)", body, re.DOTALL)
    sizes = " ".join(str(len(block.encode())) for block in blocks)
    return re.sub(r"tree_sizes=[^\n]*", f"tree_sizes={sizes}", text)


@pytest.mark.row("F-45")
@pytest.mark.parametrize(
    ("written", "other"),
    [("version=v4", "version=v9"), ("shrinkage=", "shrinkage=1\nshrinkage="), ("Tree=1", "Tree=3")],
)
def test_another_text_is_refused(written: str, other: str) -> None:
    changed = resized(model(2).replace(written, other, 1))
    with pytest.raises(BadModelText):
        check_model_text(changed, 2)


@pytest.mark.row("F-45")
def test_boundaries_whose_difference_wraps_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each difference in int64 is positive, and the last boundary right."""
    draw = np.random.default_rng(0)
    codes = draw.integers(0, 40, (900, 1))
    data = lightgbm.Dataset(codes, label=draw.normal(size=40)[codes[:, 0]], categorical_feature=[0])
    text = lightgbm.train({"verbosity": -1}, data, num_boost_round=2).model_to_string()
    check_model_text(text, 1)
    assert re.search(r"cat_boundaries=0( \d+){3,}\n", text)
    change_parsed(monkeypatch, "cat_boundaries", r"^0 \d+ \d+ ", f"0 {2**63 - 1} -2 ")
    with pytest.raises(BadModelText, match="cat_boundaries"):
        check_model_text(text, 1)


@pytest.mark.row("F-45")
def test_any_cut_or_changed_text_is_refused_or_can_be_scored() -> None:
    """By LightGBM itself, which is given what passes and nothing else."""
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
