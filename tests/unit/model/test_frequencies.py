"""How often tokens follow each other, counted in texts of any length."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from trainwright.data.base.token_inputs import Sources, TokenInputs
from trainwright.model.baselines import ngram_baseline
from trainwright.model.baselines.ngram_baseline import fit_frequencies


def inputs_of(tokens: np.ndarray, begins: tuple[int, ...]) -> TokenInputs:
    """All tokens of texts that begin there and follow each other."""
    starts = np.array(begins)
    lengths = np.diff(np.append(starts, len(tokens))) - 1
    sources = Sources(starts, tuple(map(str, begins)))
    return TokenInputs(tokens, starts + 1, lengths, starts, sources)


@pytest.mark.parametrize("block", [1, 2, 7, 100, 2**22])
def test_blocks_lose_no_token_and_no_pair(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = np.random.default_rng(0).integers(0, 5, 300).astype(np.uint16)
    begins = (0, 99, 200)
    monkeypatch.setattr(ngram_baseline, "_BLOCK_TOKENS", block)
    counts, together = np.ones(5), np.zeros((5, 5))
    for start, end in zip(begins, (*begins[1:], 300), strict=True):
        for at in range(start, end):
            counts[tokens[at]] += 1
            if at > start:
                together[tokens[at - 1], tokens[at]] += 1
    shares = counts / counts.sum()
    inputs = inputs_of(tokens, begins)
    assert (fit_frequencies(inputs, 5, pairs=False).surprise == -np.log(shares)).all()
    wanted = (together + shares) / (together.sum(axis=1, keepdims=True) + 1)
    assert (fit_frequencies(inputs, 5, pairs=True).surprise == -np.log(wanted)).all()


def test_a_longer_text_takes_no_more_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ngram_baseline, "_BLOCK_TOKENS", 2**16)
    peaks = []
    for length in (2**18, 2**22):
        inputs = inputs_of(np.zeros(length, np.uint16), (0,))
        tracemalloc.start()
        fit_frequencies(inputs, 16, pairs=True)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.1 * peaks[0]
