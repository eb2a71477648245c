"""Validation of a CatBoost model in JSON before the library reads it: it trusts indices and sizes,
and would read out of bounds."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any, Final

from trainwright.core.files import Json

_NAN_TREATMENTS: Final = ("AsIs", "AsFalse", "AsTrue")
_CTR_TYPES: Final = ("Borders", "Buckets", "Counter", "FeatureFreq", "BinarizedTargetMeanValue")
_MOST_DEPTH: Final = 16
_MOST_CODE: Final = 2**32
_ENDS_IN_BUCKETS: Final = frozenset({"Borders", "Buckets", "BinarizedTargetMeanValue"})


def check_catboost_model(model: Json, outputs: int, *, several: bool = False) -> None:
    """Validate every index and size of a model for `outputs` classes, or regression (1); of
    `several` quantiles there are so many.

    Raises:
        ValueError: one of them is out of bounds. KeyError, TypeError, AttributeError: something is
            missing, or of another type.
    """
    width = outputs if outputs > 2 or several else 1
    splits = list(_splits(model["features_info"]))
    _check_statistics(model)
    scale, bias = model["scale_and_bias"]
    _ask(_is_number(scale) and len(bias) == width and all(map(_is_number, bias)), "scale_and_bias")
    for tree in model["oblivious_trees"]:
        asked = tree["splits"] or []
        _ask(len(asked) <= _MOST_DEPTH, "the depth of a tree")
        for split in asked:
            place = split["split_index"]
            _ask(_is_count(place) and place < len(splits) and splits[place] == split, "a split")
        leaves = 2 ** len(asked)
        values, weights = tree["leaf_values"], tree["leaf_weights"]
        _ask(len(values) == leaves * width and all(map(_is_number, values)), "leaf_values")
        _ask(len(weights) == leaves and all(map(_is_number, weights)), "leaf_weights")


def _splits(features: Mapping[str, Json]) -> Iterator[dict[str, Json]]:
    """Every split that a tree may have, in the order of `split_index`."""
    numbers, codes = features.get("float_features", []), features.get("categorical_features", [])
    found: list[dict[str, Json]] = []
    for at, one in enumerate(numbers):
        _check_place(one, at, at)
        _ask(type(one["has_nans"]) is bool, "has_nans")
        _ask(one["nan_value_treatment"] in _NAN_TREATMENTS, "nan_value_treatment")
        borders = one["borders"] or []
        _check_borders(borders)
        found += [
            {"split_type": "FloatFeature", "float_feature_index": at, "border": border}
            for border in borders
        ]
    for at, one in enumerate(codes):
        _check_place(one, at, len(numbers) + at)
        values = one.get("values", [])
        _ask(all(_is_code(value) for value in values), "the values of a category")
        found += [
            {"split_type": "OneHotFeature", "cat_feature_index": at, "value": value}
            for value in values
        ]
    for ctr in features.get("ctrs", []):
        _check_ctr(ctr, numbers, len(codes))
        found += [
            {
                "split_type": "OnlineCtr",
                "border": border,
                "ctr_target_border_idx": ctr["target_border_idx"],
            }
            for border in ctr["borders"]
        ]
    return ({**split, "split_index": at} for at, split in enumerate(found))


def _check_place(feature: Mapping[str, Json], at: int, flat: int) -> None:
    _ask(feature["feature_index"] == at, "feature_index")
    _ask(feature["flat_feature_index"] == flat, "flat_feature_index")
    _ask(feature["feature_id"] == "", "feature_id")


def _check_borders(borders: Json) -> None:
    _ask(all(map(_is_number, borders)) and borders == sorted(borders), "borders")


def _check_ctr(ctr: Mapping[str, Json], numbers: list[Json], codes: int) -> None:
    """Statistics of the target over some categories, and the borders that split them."""
    _ask(ctr["ctr_type"] in _CTR_TYPES, "ctr_type")
    _ask(_is_count(ctr["target_border_idx"]), "target_border_idx")
    for name in ("prior_numerator", "prior_denomerator", "scale", "shift"):
        _ask(_is_number(ctr[name]), name)
    _check_borders(ctr["borders"])
    _ask(bool(ctr["elements"]), "the elements of a statistic")
    for element in ctr["elements"]:
        _check_element(element, numbers, codes)


def _check_element(element: Mapping[str, Json], numbers: list[Json], codes: int) -> None:
    kind = element["combination_element"]
    if kind == "float_feature":
        at = element["float_feature_index"]
        _ask(_is_count(at) and at < len(numbers), "float_feature_index")
        _ask(element["border"] in numbers[at]["borders"], "the border of a statistic")
        return
    _ask(kind in ("cat_feature_value", "cat_feature_exact_value"), "combination_element")
    at = element["cat_feature_index"]
    _ask(_is_count(at) and at < codes, "cat_feature_index")
    if kind == "cat_feature_exact_value":
        _ask(_is_code(element["value"]), "the value of a category")


def _check_statistics(model: Mapping[str, Json]) -> None:
    """Each statistic has its table: hash of the categories, then its counts or means."""
    tables = model.get("ctr_data", {})
    strides: dict[str, int] = {}
    for name, table in tables.items():
        stride, values = table["hash_stride"], table["hash_map"]
        _ask(_is_count(table["counter_denominator"]), "counter_denominator")
        _ask(_is_count(stride) and 2 <= stride <= 1000, "hash_stride")
        _ask(isinstance(values, list) and len(values) % stride == 0, "hash_map")
        keys = values[::stride]
        _ask(
            all(isinstance(key, str) and key.isdecimal() and len(key) <= 20 for key in keys), "key"
        )
        rest = [value for at, value in enumerate(values) if at % stride]
        _ask(all(map(_is_number, rest)), "hash_map")
        strides[name] = stride
    for ctr in model["features_info"].get("ctrs", []):
        name, kind = ctr["identifier"], ctr["ctr_type"]
        described = json.loads(name)
        same = described == {"identifier": ctr["elements"], "type": kind}
        _ask(same and name in strides, "the table of a statistic")
        buckets = strides[name] - 1
        if kind in ("Borders", "Buckets"):
            most = buckets - (kind == "Borders")
            _ask(ctr["target_border_idx"] < most, "target_border_idx")
        else:
            _ask(buckets == (2 if kind in _ENDS_IN_BUCKETS else 1), "hash_stride")


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


def _is_code(value: Any) -> bool:
    return type(value) is int and abs(value) < _MOST_CODE


def _ask(holds: bool, what: str) -> None:
    if not holds:
        raise ValueError(f"{what} of the CatBoost model cannot be right")
