"""Validation of a LightGBM text model before the library reads it: LightGBM trusts every index and
size, and would read out of bounds."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

_START = re.compile(r"tree\nversion=v[34]\n((?:[a-z_]+=[^\n]*\n)+)\n")
_HEADER = frozenset(
    {
        *("num_class", "num_tree_per_iteration", "label_index", "max_feature_idx", "objective"),
        *("feature_names", "monotone_constraints", "feature_infos", "tree_sizes"),
    }
)
_NODES = ("split_feature", "split_gain", "threshold", "decision_type", "left_child", "right_child")
_LEAVES = ("leaf_value", "leaf_weight", "leaf_count")
_INNER = ("internal_value", "internal_weight", "internal_count")
_TREE = frozenset(
    {
        *("num_leaves", "num_cat", *_NODES, *_LEAVES, *_INNER),
        *("cat_boundaries", "cat_threshold", "is_linear", "shrinkage"),
    }
)
_OBJECTIVE = re.compile(
    r"(?:binary sigmoid:1|regression(?:_l1)?|huber|fair|poisson|quantile|mape|gamma|tweedie"
    r"|lambdarank|rank_xendcg|multiclass num_class:(?P<classes>[0-9]{1,9}))"
    r"(?: [a-z_]+:[0-9.eE+-]+)*"
)
_IS_CATEGORICAL = 1

Indices = npt.NDArray[np.int64]


class BadModelText(ValueError):
    """The text is not a safe LightGBM model; the message says where."""


@dataclass(frozen=True, slots=True)
class _Head:
    features: int
    trees_a_round: int
    sizes: Indices


def check_model_text(text: str, outputs: int) -> None:
    """Validate every index and size of a model for `outputs` classes, or regression (1).

    Raises:
        BadModelText: one of them is out of bounds.
    """
    start = _START.match(text)
    _ask(start is not None, "its head")
    assert start is not None
    head = _head(_fields(start[1], _HEADER, "the head"), outputs)
    data = text[start.end() :].encode()
    _ask(int(head.sizes.sum()) <= len(data), "tree_sizes")
    end = 0
    for number, size in enumerate(head.sizes.tolist()):
        block = data[end : end + size].decode(errors="replace")
        first = f"Tree={number}\n"
        _ask(block.startswith(first) and block.endswith("\n\n"), f"the size of tree {number}")
        _check_tree(_fields(block[len(first) :].strip("\n") + "\n", _TREE, first), head.features)
        end += size
    _ask(data[end:].startswith(b"end of trees\n"), "the end of the trees")


def _ask(holds: bool, what: str) -> None:
    if not holds:
        raise BadModelText(f"{what.strip()} of the LightGBM model cannot be right")


def _fields(lines: str, known: frozenset[str], what: str) -> dict[str, str]:
    pairs = [line.partition("=") for line in lines.splitlines()]
    found = {name: value for name, _, value in pairs}
    _ask(len(found) == len(pairs) and found.keys() <= known, f"the names in {what}")
    return found


def _head(fields: Mapping[str, str], outputs: int) -> _Head:
    rounds = outputs if outputs > 2 else 1
    objective = _OBJECTIVE.fullmatch(fields.get("objective", ""))
    _ask(objective is not None, "objective")
    assert objective is not None
    _ask(int(objective["classes"] or 1) == rounds, "the objective's num_class")
    for name in ("num_class", "num_tree_per_iteration"):
        _ask(_one(fields, name) == rounds, name)
    features = _one(fields, "max_feature_idx") + 1
    for name in ("feature_names", "feature_infos"):
        _ask(len(fields.get(name, "").split(" ")) == features, name)
    constraints = _numbers(fields, "monotone_constraints", np.int64)
    _ask(len(constraints) in (0, features), "monotone_constraints")
    sizes = _numbers(fields, "tree_sizes", np.int64)
    _ask(bool((sizes > 0).all() and (sizes < 2**31).all()), "tree_sizes")
    _ask(len(sizes) % rounds == 0, "tree_sizes")
    return _Head(features, rounds, sizes)


def _check_tree(fields: Mapping[str, str], features: int) -> None:
    leaves = _one(fields, "num_leaves")
    _ask(leaves >= 1, "num_leaves")
    _ask(fields.get("is_linear", "0") == "0", "is_linear")
    whole = {"split_feature", "decision_type", "left_child", "right_child"}
    read = {
        name: _numbers(fields, name, np.int64 if name in whole else np.float64)
        for name in (*_NODES, *_LEAVES, *_INNER)
    }
    for names, wanted in ((_NODES, leaves - 1), (_INNER, leaves - 1), (_LEAVES, leaves)):
        for name in names:
            needed = (name != "leaf_weight" and name != "leaf_count") or leaves > 1
            _ask(len(read[name]) == wanted or (not needed and not len(read[name])), name)
    _ask(bool(np.isfinite(read["leaf_value"]).all()), "leaf_value")
    _ask(not np.isnan(read["threshold"]).any(), "threshold")
    split = read["split_feature"]
    _ask(bool(((split >= 0) & (split < features)).all()), "split_feature")
    kind = read["decision_type"]
    _ask(bool(((kind >= 0) & (kind < 16)).all()), "decision_type")
    _check_shape(read["left_child"], read["right_child"], leaves)
    _check_categories(fields, read["threshold"][(kind & _IS_CATEGORICAL) == 1])


def _check_shape(left: Indices, right: Indices, leaves: int) -> None:
    """Each node but the first, and each leaf, must be the child of exactly one earlier node."""
    children = np.concatenate([left, right])
    expected = np.concatenate([np.arange(1, leaves - 1), -1 - np.arange(leaves)])
    if leaves > 1:
        _ask(bool(np.array_equal(np.sort(children), np.sort(expected))), "the children")
        parents = np.tile(np.arange(leaves - 1), 2)
        _ask(bool((children[children >= 0] > parents[children >= 0]).all()), "the order")


def _check_categories(fields: Mapping[str, str], thresholds: npt.NDArray[Any]) -> None:
    count = _one(fields, "num_cat")
    _ask(0 <= count <= len(thresholds), "num_cat")
    if not count:
        _ask(not len(thresholds), "num_cat")
        return
    bounds = _numbers(fields, "cat_boundaries", np.int64)
    words = _numbers(fields, "cat_threshold", np.int64)
    _ask(len(bounds) == count + 1 and bounds[0] == 0, "cat_boundaries")
    # Bounded before they are subtracted: the difference of int64 wraps.
    _ask(bool(((bounds >= 0) & (bounds <= len(words))).all()), "cat_boundaries")
    _ask(bool((np.diff(bounds) >= 0).all()) and bounds[-1] == len(words), "cat_boundaries")
    _ask(bool(((words >= 0) & (words < 2**32)).all()), "cat_threshold")
    fits = (thresholds >= 0) & (thresholds < count) & (thresholds == np.floor(thresholds))
    _ask(bool(fits.all()), "threshold")


def _one(fields: Mapping[str, str], name: str) -> int:
    text = fields.get(name, "")
    _ask(bool(re.fullmatch(r"-?[0-9]{1,9}", text)), name)
    return int(text)


def _numbers(fields: Mapping[str, str], name: str, kind: type[Any]) -> npt.NDArray[Any]:
    words = fields.get(name, "").split()
    try:
        return np.array(words, dtype=kind) if words else np.zeros(0, kind)
    except (ValueError, OverflowError):
        raise BadModelText(f"{name} of the LightGBM model is not a list of numbers") from None
