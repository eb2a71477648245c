"""Baselines of image-text and of text pairs: chance, BM25, and a linear matching."""

from __future__ import annotations

import numpy as np

from trainwright.data.base.pair_inputs import PairInputs
from trainwright.data.base.row_storage import spread_rows
from trainwright.data.columns.target import Target
from trainwright.data.pairs.pair_encoder import fit_pair_terms, small_images
from trainwright.data.text_pairs.text_pair_encoder import (
    TextPairEncoder,
    TextPairTerms,
    common_terms,
)
from trainwright.data.types import Prepared
from trainwright.model.baselines.dummy import ConstantModel
from trainwright.model.baselines.okapi_bm25 import fit_okapi_bm25
from trainwright.model.baselines.ridge_match import fit_ridge_match
from trainwright.predictor.predictor import Predictor

MOST_PAIRS = 20_000
"""Training pairs that the linear one sees."""

MOST_TEXT_PAIRS = 20_000
"""Training pairs that the linear one sees."""

_TERMS_OF_BM25 = 4000


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


def chance_of_passages(prepared: Prepared) -> Predictor:
    """Embeddings that are all alike: every candidate stands in a random order."""
    target = prepared.target.with_width(1)
    return Predictor(prepared.features, target, ConstantModel((1.0, 1.0)))


def bm25_of_passages(prepared: Prepared) -> Predictor:
    """BM25 by the different passages of the training, of which at most 4,000 terms count: the
    rarest words of a passage are those that it lacks."""
    encoder, target = TextPairEncoder.of_kind(prepared.features), prepared.target
    passages = prepared.train.frame[encoder.passage].unique(maintain_order=True).to_list()
    terms = common_terms(passages, _TERMS_OF_BM25)
    features = TextPairTerms(tuple(terms), (), encoder.query, encoder.passage)
    documents = np.array(list(terms.values()), np.float64)
    lengths = np.concatenate(
        [
            features.count(passages[start : start + 1024]).sum(axis=1)
            for start in range(0, len(passages), 1024)
        ]
    )
    fitted = fit_okapi_bm25(lengths[:, None], documents, len(passages))
    return Predictor(features, target.with_width(features.width), fitted)


def match_terms(prepared: Prepared, most_rows: float) -> Predictor:
    """Terms of the query to those of the passage by ridge regression of TF-IDF weights."""
    encoder, train = TextPairEncoder.of_kind(prepared.features), prepared.train
    seen = spread_rows(len(train), int(min(most_rows, MOST_TEXT_PAIRS, len(train))))
    queries, passages = (
        train.frame[name][seen].to_list() for name in (encoder.query, encoder.passage)
    )
    counts = common_terms([*queries, *passages])
    texts = 2 * len(seen)
    rarity = tuple(float(np.log((1 + texts) / (1 + count)) + 1) for count in counts.values())
    features = TextPairTerms(tuple(counts), rarity, encoder.query, encoder.passage)
    fitted = fit_ridge_match(features.count(queries), features.count(passages))
    target: Target = prepared.target
    return Predictor(features, target.with_width(features.width), fitted)
