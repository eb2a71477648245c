"""Unigram and bigram baselines of texts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, final

import numpy as np

from trainwright.core.files import read_json, write_json
from trainwright.data.base.inputs import Floats, Inputs, Integers
from trainwright.data.base.token_inputs import TokenInputs, Tokens
from trainwright.data.base.typed_fields import check_annotated

_MOST_PAIRS = 2**22
_BLOCK_TOKENS = 2**22


@final
@dataclass(frozen=True, slots=True)
class Frequencies:
    """-log p of each token: [V] unigram, or [V, V] bigram given the previous token (row)."""

    surprise: Floats
    kind: ClassVar[str] = "frequencies"

    def score(self, inputs: Inputs) -> Floats:
        """Negative log-likelihood (nats) of each evaluation segment, [N, 1]."""
        text = TokenInputs.of_kind(inputs.segments)
        sums = []
        for start, length in zip(text.starts, text.lengths, strict=True):
            each = self._of(text.tokens[start - 1 : start + length])
            if not isinstance(text.mask, str):
                each = each[text.mask[start : start + length]]
            sums.append(float(each.sum()))
        return np.array(sums, np.float64).reshape(-1, 1)

    def write(self, folder: Path) -> None:
        """Write `frequencies.json`."""
        write_json(folder / "frequencies.json", {"surprise": self.surprise.tolist()})

    def _of(self, tokens: Tokens) -> Floats:
        if self.surprise.ndim == 1:
            return self.surprise[tokens[1:]]
        return self.surprise[tokens[:-1], tokens[1:]]


def fit_frequencies(
    inputs: TokenInputs, size: int, *, pairs: bool, segments: bool = False
) -> Frequencies:
    """Count tokens in the training part, or in its segments alone. With `pairs`, bigram frequencies
    are smoothed by the unigram, which counts as one more pair; every token has one pseudo-count."""
    counts = np.ones(size)
    spans = _segment_spans(inputs) if segments else _source_spans(inputs)
    for tokens in _blocks(inputs, spans, 0):
        counts += np.bincount(tokens, minlength=size)
    shares = counts / counts.sum()
    if not pairs or size**2 > _MOST_PAIRS:
        return Frequencies(-np.log(shares))
    together = np.zeros(size**2, dtype=np.int64)
    for tokens in _blocks(inputs, spans, 1):
        together += np.bincount(tokens[:-1] * size + tokens[1:], minlength=size**2)
    table = together.reshape(size, size).astype(np.float64)
    table = (table + shares) / (table.sum(axis=1, keepdims=True) + 1)
    return Frequencies(-np.log(table))


def _source_spans(inputs: TokenInputs) -> Integers:
    """Half-open ranges of the predicted tokens of each source, [S, 2]."""
    return inputs.source_spans()[:, 1:]


def _segment_spans(inputs: TokenInputs) -> Integers:
    """Half-open ranges of the segments, [N, 2]."""
    return np.stack([inputs.starts, inputs.starts + inputs.lengths], axis=1)


def _blocks(inputs: TokenInputs, spans: Integers, beyond: int) -> Iterator[Integers]:
    """Chunks of the tokens of each span, and of the tokens that follow them."""
    for start, end in spans.tolist():
        for at in range(start - 1, end, _BLOCK_TOKENS):
            yield inputs.tokens[at : min(end, at + _BLOCK_TOKENS + beyond)].astype(np.int64)


def read_frequencies(folder: Path) -> Frequencies:
    """Read what `Frequencies.write` wrote."""
    found = Frequencies(np.asarray(read_json(folder / "frequencies.json")["surprise"], np.float64))
    check_annotated(found, "frequencies.json")
    return found
