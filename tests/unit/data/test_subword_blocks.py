"""A long text is learned and encoded in blocks, with the same merges and tokens as at once."""

from __future__ import annotations

import numpy as np
import pytest

from trainwright.data.encoders import bpe
from trainwright.data.encoders.bpe import blocks_of, encode_pieces, train_pieces

pytest.importorskip("tokenizers")

BITS = (
    "the",
    "cat's",
    " ",
    "  ",
    "\n",
    " \n",
    "\n\n ",
    "\t",
    "\u00a0",
    "x1",
    "...",
    "é",
    "\u2003 ",
)


def _text(seed: int, parts: int = 3000) -> str:
    return "".join(np.random.default_rng(seed).choice(BITS, parts).tolist())


@pytest.mark.parametrize("seed", range(5))
def test_blocks_have_the_merges_and_tokens_of_the_whole(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = _text(seed)
    learned = train_pieces([text], 300)
    whole = encode_pieces(learned, [text, "", "a b"])
    monkeypatch.setattr(bpe, "_BLOCK", 40)
    blocks = list(blocks_of(text))
    assert len(blocks) > 50
    assert "".join(blocks) == text
    assert train_pieces(blocks_of(text), 300) == learned
    for alone, together in zip(whole, encode_pieces(learned, [text, "", "a b"]), strict=True):
        np.testing.assert_array_equal(alone, together)
