"""Baselines of texts: how often each token follows the one before it, or occurs at all."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, final

import numpy as np

from trainwright.core.files import read_json, write_json
from trainwright.data.base.table import Floats, Inputs, Integers, TokenInputs
from trainwright.data.encoders.vocabulary import Tokens

_MOST_PAIRS = 2**22
_BLOCK_TOKENS = 2**22


@final
@dataclass(frozen=True, slots=True)
class Frequencies:
    """-log p of each token, [V] from its own share, or [V, V] from its share after the token before
    it (row)."""

    surprise: Floats
    kind: ClassVar[str] = "frequencies"

    def score(self, inputs: Inputs) -> Floats:
        """The summed surprise of each stretch in nats [N, 1]."""
        assert isinstance(inputs, TokenInputs), "these are frequencies of tokens"
        sums = [
            float(self._of(inputs.tokens[start - 1 : start + length]).sum())
            for start, length in zip(inputs.starts, inputs.lengths, strict=True)
        ]
        return np.array(sums, np.float64).reshape(-1, 1)

    def write(self, folder: Path) -> None:
        """Write `frequencies.json`."""
        write_json(folder / "frequencies.json", {"surprise": self.surprise.tolist()})

    def _of(self, tokens: Tokens) -> Floats:
        if self.surprise.ndim == 1:
            return self.surprise[tokens[1:]]
        return self.surprise[tokens[:-1], tokens[1:]]


def fit_frequencies(inputs: TokenInputs, size: int, *, pairs: bool) -> Frequencies:
    """Count in the training part. Of `pairs`, the share of a token after another is blended with
    its own share, which counts as one more pair; every token counts once more than it occurs."""
    counts = np.ones(size)
    for tokens in _blocks(inputs, 0):
        counts += np.bincount(tokens, minlength=size)
    shares = counts / counts.sum()
    if not pairs or size**2 > _MOST_PAIRS:
        return Frequencies(-np.log(shares))
    together = np.zeros(size**2, dtype=np.int64)
    for tokens in _blocks(inputs, 1):
        together += np.bincount(tokens[:-1] * size + tokens[1:], minlength=size**2)
    table = together.reshape(size, size).astype(np.float64)
    table = (table + shares) / (table.sum(axis=1, keepdims=True) + 1)
    return Frequencies(-np.log(table))


def _blocks(inputs: TokenInputs, beyond: int) -> Iterator[Integers]:
    """The tokens of each source, some at a time, and so many of those that follow them there."""
    for _, start, end in inputs.source_spans().tolist():
        for at in range(start - 1, end, _BLOCK_TOKENS):
            yield inputs.tokens[at : min(end, at + _BLOCK_TOKENS + beyond)].astype(np.int64)


def read_frequencies(folder: Path) -> Frequencies:
    """Read what `Frequencies.write` wrote."""
    return Frequencies(np.asarray(read_json(folder / "frequencies.json")["surprise"], np.float64))
