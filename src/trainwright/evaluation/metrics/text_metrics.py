"""Metrics of texts, of which `values` are the negative log-likelihood in nats of each segment and
`truth` its number of tokens.

Nats per token and perplexity, its exponential (Jelinek et al. 1977), depend on what a token is.
Bits per byte do not: the negative log2-likelihood of a text divided by its bytes in UTF-8 (Gao et
al. 2020, arXiv:2101.00027, section 3.1), so that models with different tokenizers are compared on
the same text.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from trainwright.data.base.inputs import Floats
from trainwright.evaluation.metrics.predictions import Answers

_MOST_EXPONENT = 709.0


def token_sums(answers: Answers) -> Floats:
    """Nats and tokens of each segment, [N, 2]."""
    return np.stack([answers.values(), answers.truth.astype(np.float64)], axis=1)


def byte_sums(answers: Answers) -> Floats:
    """Bits and bytes of each segment, [N, 2]; 0 bytes where nothing is known of the text."""
    counts = answers.levels.text_bytes
    counts = counts if len(counts) else np.zeros(len(answers))
    return np.stack([answers.values() / math.log(2), counts], axis=1)


def nats_per_token(answers: Answers) -> float:
    """Mean negative log-likelihood of a token."""
    return float(answers.values().sum() / answers.truth.sum())


def perplexity(answers: Answers) -> float:
    """exp(nats per token), infinite where that is no float."""
    nats = nats_per_token(answers)
    return math.exp(nats) if nats < _MOST_EXPONENT else math.inf


def bits_per_byte(answers: Answers) -> float:
    """Negative log2-likelihood for a byte of the text; nan without text."""
    bits, counted = byte_sums(answers).sum(axis=0)
    return float(bits / counted) if counted else math.nan


MEASURES: Mapping[str, Callable[[Answers], float]] = MappingProxyType(
    {
        "nats_per_token": nats_per_token,
        "perplexity": perplexity,
        "bits_per_byte": bits_per_byte,
    }
)
"""Each by its name."""
