"""Baselines of image-text pairs: chance, and a linear model of small images and terms."""

from __future__ import annotations

from trainwright.data.base.inputs.pair_inputs import PairInputs
from trainwright.data.base.storage.row_storage import spread_rows
from trainwright.data.columns.target_kind import Target
from trainwright.data.pairs.pair_terms import fit_pair_terms, small_images
from trainwright.data.types import Prepared
from trainwright.model.baselines.dummy import ConstantModel
from trainwright.model.baselines.ridge_match import fit_ridge_match
from trainwright.predictor.predictor import Predictor

MOST_PAIRS = 20_000
"""Training pairs that the linear one sees."""


def chance_of_pairs(prepared: Prepared) -> Predictor:
    """Embeddings that are all alike: every candidate stands in a random order."""
    target = prepared.target.with_width(1)
    return Predictor(prepared.features, target, ConstantModel((1.0, 1.0)))


def match_linearly(prepared: Prepared, most_rows: float) -> Predictor:
    """Areas of the image to the terms of the caption by ridge regression."""
    train = prepared.train
    seen = spread_rows(len(train), int(min(most_rows, MOST_PAIRS, len(train))))
    images = PairInputs.of_kind(train.inputs).images.take(seen)
    target: Target = prepared.target
    captions = train.frame[target.column][seen]
    features = fit_pair_terms(images, captions)
    terms = features.weigh(captions.to_list())
    fitted = fit_ridge_match(small_images(images), terms)
    return Predictor(features, target.with_width(len(features.terms)), fitted)
