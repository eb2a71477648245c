"""Trees grown so far as LightGBM reads them."""

from __future__ import annotations

from typing import Any

import lightgbm

from trainwright.core.files import Json
from trainwright.model.tree_growth import Grown, grown_from_json


def booster_of(grown: Grown) -> lightgbm.Booster:
    """Booster for predictions."""
    return lightgbm.Booster(model_str=grown.text)


def read_grown(values: Json, outputs: int) -> Grown:
    """Inverse of `Grown.to_json`, for a model of `outputs` classes, or regression (1).

    Raises:
        ValueError, TypeError, KeyError: invalid content. LightGBM has not read it yet.
    """
    from trainwright.model.boosting.lightgbm_text import check_model_text

    check_model_text(str(values["text"]), outputs)
    grown = grown_from_json(values)
    try:
        held = booster_of(grown).current_iteration()
    except lightgbm.basic.LightGBMError as error:
        raise ValueError(f"LightGBM cannot read it: {error}") from error
    if held != grown.trees:
        raise ValueError(f"it does not hold the {grown.trees} trees that it names")
    return grown


def round_text(booster: Any, number: int) -> str:
    """Trees added by a round, in LightGBM's text format; rounds count from 0."""
    text = str(booster.model_to_string(start_iteration=number, num_iteration=1))
    return text[text.index("Tree=0") : text.index("end of trees")]
