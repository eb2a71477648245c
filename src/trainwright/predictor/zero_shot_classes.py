"""Classes of images by the embeddings of their texts."""

from __future__ import annotations

import numpy as np

from trainwright.contract.sections.zero_shot import ZeroShot
from trainwright.data.base.inputs import Floats, Inputs
from trainwright.data.columns.retrieval_targets import unit_rows
from trainwright.data.pairs.pair_encoder import PairEncoder, PairTerms
from trainwright.predictor.predictor import Predictor

_TEMPERATURE = 0.07
"""Of the linear baseline, which has learned none; as CLIP begins with."""


def average_of_texts(embeddings: Floats, sizes: list[int]) -> Floats:
    """Embedding of each class [C, D] from those of its texts [T, D], of which it has `sizes` [C]:
    the mean of the unit vectors, of length 1 again (Radford et al. 2021, arXiv:2103.00020, section
    3.1.4)."""
    starts = np.cumsum([0, *sizes])[:-1]
    means = np.add.reduceat(unit_rows(embeddings), starts, axis=0) / np.array(sizes)[:, None]
    return unit_rows(means)


def zero_shot_scores(predictor: Predictor, images: Inputs, classes: ZeroShot) -> Floats:
    """Probabilities [N, C] of classes by a dual encoder: a softmax over the cosines of the image
    and each class, divided by the learned temperature."""
    encoder = PairEncoder.of_kind(predictor.features)
    texts = [classes.texts_of(label) for label in classes.classes]
    tokens = encoder.captions.tokenize([text for each in texts for text in each])
    embeddings = np.asarray(predictor.score(tokens), np.float64)
    # Products of an image and a text are logits: both have the length sqrt(s).
    length = float(np.linalg.norm(embeddings[0]))
    of_classes = average_of_texts(embeddings, list(map(len, texts))) * length
    return _softmax(np.asarray(predictor.score(images), np.float64) @ of_classes.T)


def linear_zero_shot(baseline: Predictor, images: Inputs, classes: ZeroShot) -> Floats:
    """The same by the linear baseline of a retrieval, a regression from small images to terms."""
    terms = PairTerms.of_kind(baseline.features)
    texts = [classes.texts_of(label) for label in classes.classes]
    weights = terms.weigh([text for each in texts for text in each])
    of_classes = average_of_texts(weights, list(map(len, texts)))
    pictures = images.pictures()
    guessed = []
    for start in range(0, len(pictures), 4096):
        block = pictures.take(np.arange(start, min(start + 4096, len(pictures))))
        encoded = terms.encode(block, [""] * len(block))
        guessed.append(baseline.score(encoded)[:, : len(terms.terms)])
    return _softmax(np.concatenate(guessed) @ of_classes.T / _TEMPERATURE)


def _softmax(logits: Floats) -> Floats:
    odds = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(odds / odds.sum(axis=1, keepdims=True))
