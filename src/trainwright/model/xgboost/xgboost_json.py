"""Validation of an XGBoost model in JSON before the library reads it: it trusts most indices, and
would read out of bounds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from trainwright.core.files import Json

_OBJECTIVES: Final = {
    1: (
        *("reg:squarederror", "reg:absoluteerror", "reg:quantileerror", "count:poisson"),
        "rank:ndcg",
    ),
    2: ("binary:logistic",),
}
_NO_PARENT: Final = 2**31 - 1
_MOST_CATEGORIES: Final = 2**24
"""Codes above it are not exact in the matrix."""

_PER_NODE: Final = (
    *("base_weights", "default_left", "left_children", "loss_changes", "parents"),
    *("right_children", "split_conditions", "split_indices", "split_type", "sum_hessian"),
)
_WHOLE: Final = frozenset(
    {
        *("default_left", "left_children", "parents", "right_children", "split_indices"),
        *("split_type", "categories", "categories_nodes", "categories_segments"),
        "categories_sizes",
    }
)

Array = npt.NDArray[Any]


def check_xgboost_model(model: Json, outputs: int, quantiles: int = 0, targets: int = 0) -> None:
    """Validate every index and size of a model for `outputs` classes, or regression (1) of several
    `quantiles` or of one number (0); of several `targets` of numbers, or of labels (2 classes).

    Raises:
        ValueError: one of them is out of bounds. KeyError, TypeError: something is missing, or of
            another type.
    """
    learner = model["learner"]
    booster = learner["gradient_booster"]
    classes = outputs if outputs > 2 else 1
    several = quantiles or targets
    groups = several or classes
    head, forest = learner["learner_model_param"], booster["model"]
    features = _count(head["num_feature"], "num_feature")
    _ask(booster["name"] == "gbtree", "the name of the booster")
    _ask(learner["objective"]["name"] in _OBJECTIVES.get(outputs, ("multi:softprob",)), "objective")
    _ask(_count(head["num_class"], "num_class") == (classes if classes > 1 else 0), "num_class")
    _ask(_count(head["num_target"], "num_target") == (several or 1), "num_target")
    if several:
        _check_numbers(head["base_score"], several, "base_score")
    if quantiles:
        _ask(learner["objective"]["name"] == "reg:quantileerror", "objective")
        alphas = learner["objective"]["quantile_loss_param"]["quantile_alpha"]
        _check_numbers(alphas, quantiles, "alpha")
    _ask(len(learner["feature_types"]) == features, "feature_types")
    _ask(not learner["feature_names"], "feature_names")
    _ask(not any(forest["cats"].values()), "cats")
    param, trees = forest["gbtree_model_param"], forest["trees"]
    _ask(_count(param["num_trees"], "num_trees") == len(trees), "num_trees")
    _ask(_count(param["num_parallel_tree"], "num_parallel_tree") == 1, "num_parallel_tree")
    rounds = len(trees) // groups
    info = _array(forest, "tree_info", whole=True)
    _ask(len(trees) == rounds * groups, "num_trees")
    _ask(np.array_equal(info, np.arange(len(trees)) % groups), "tree_info")
    ends = _array(forest, "iteration_indptr", whole=True)
    _ask(np.array_equal(ends, np.arange(rounds + 1) * groups), "iteration_indptr")
    for tree in trees:
        _check_tree(tree, features)


def _check_numbers(text: str, count: int, name: str) -> None:
    """A list of finite numbers in a text."""
    numbers = [float(one) for one in text.strip("[]").split(",")]
    _ask(len(numbers) == count and all(map(math.isfinite, numbers)), name)


def _check_tree(tree: Mapping[str, Json], features: int) -> None:
    param = tree["tree_param"]
    nodes = _count(param["num_nodes"], "num_nodes")
    _ask(nodes >= 1 and _count(param["num_feature"], "num_feature") == features, "tree_param")
    _ask(param["size_leaf_vector"] in ("0", "1") and param["num_deleted"] == "0", "tree_param")
    read = {name: _array(tree, name, whole=name in _WHOLE) for name in _PER_NODE}
    for name, values in read.items():
        _ask(len(values) == nodes, name)
    _ask(bool(np.isfinite(read["split_conditions"]).all()), "split_conditions")
    split = read["split_indices"]
    _ask(bool(((split >= 0) & (split < features)).all()), "split_indices")
    for name in ("default_left", "split_type"):
        _ask(bool(np.isin(read[name], (0, 1)).all()), name)
    _check_children(read, nodes)
    _check_categories(tree, read)


def _check_children(read: Mapping[str, Array], nodes: int) -> None:
    """Each node but the root is the child of exactly one earlier node, which is its parent."""
    left, right, parents = read["left_children"], read["right_children"], read["parents"]
    _ask(np.array_equal(left == -1, right == -1), "the children")
    inner = np.flatnonzero(left != -1)
    children, above = np.concatenate([left[inner], right[inner]]), np.tile(inner, 2)
    _ask(np.array_equal(np.sort(children), np.arange(1, nodes)), "the children")
    _ask(bool((children > above).all()), "the order of the nodes")
    _ask(parents[0] == _NO_PARENT and np.array_equal(parents[children], above), "the parents")


def _check_categories(tree: Mapping[str, Json], read: Mapping[str, Array]) -> None:
    """Every categorical split has its own run of the list of categories."""
    names = ("categories", "categories_nodes", "categories_segments", "categories_sizes")
    codes, nodes, starts, sizes = (_array(tree, name, whole=True) for name in names)
    wanted = np.flatnonzero((read["split_type"] == 1) & (read["left_children"] != -1))
    _ask(np.array_equal(nodes, wanted), "categories_nodes")
    _ask(len(starts) == len(sizes) == len(nodes), "categories_sizes")
    # Bounded before they are added up: the sum of int64 wraps.
    _ask(bool(((sizes >= 1) & (sizes <= len(codes))).all()), "categories_sizes")
    ends = np.cumsum(sizes)
    _ask(np.array_equal(starts, ends - sizes), "categories_segments")
    _ask(len(codes) == (ends[-1] if len(ends) else 0), "categories")
    _ask(bool(((codes >= 0) & (codes < _MOST_CATEGORIES)).all()), "categories")


def _array(values: Mapping[str, Json], name: str, *, whole: bool) -> Array:
    """Numbers of a list, int64 where they must be whole."""
    given = values[name]
    kinds = (int,) if whole else (int, float)
    _ask(isinstance(given, list) and all(type(one) in kinds for one in given), name)
    try:
        return np.array(given, dtype=np.int64 if whole else np.float64)
    except OverflowError:
        raise ValueError(f"{name} of the XGBoost model is not a list of numbers") from None


def _count(text: Json, name: str) -> int:
    _ask(isinstance(text, str) and text.isdecimal() and len(text) < 10, name)
    return int(text)


def _ask(holds: bool, what: str) -> None:
    if not holds:
        raise ValueError(f"{what} of the XGBoost model cannot be right")
