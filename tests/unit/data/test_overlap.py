"""Text that stands in two parts is found by its sequences, and chance is not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from trainwright.data.audit import text_overlap
from trainwright.data.audit.text_overlap import (
    CHARACTERS,
    TokenSpan,
    copied_segments,
    sequence_length,
)
from trainwright.data.base.token_inputs import TokenInputs

SEGMENT = 256


def inputs_of(tokens: np.ndarray, start: int, stop: int) -> TokenInputs:
    starts = np.arange(start, stop, SEGMENT)
    return TokenInputs(tokens, starts, np.minimum(SEGMENT, stop - starts))


def letters(count: int, kinds: int = 30, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, kinds, count).astype(np.uint16)


def test_exactly_the_copied_segments_are_found() -> None:
    tokens = letters(60 * SEGMENT)
    train, held_out = inputs_of(tokens, 0, 40 * SEGMENT), inputs_of(tokens, 40 * SEGMENT, 15360)
    tokens[45 * SEGMENT : 48 * SEGMENT] = tokens[777 : 777 + 3 * SEGMENT]
    half = 50 * SEGMENT
    tokens[half : half + SEGMENT // 2] = tokens[99 : 99 + SEGMENT // 2]
    compared, copied, length, searched = copied_segments(train, held_out, pieces=False)
    assert (length, searched) == (CHARACTERS, 1)
    assert compared.all()
    assert np.flatnonzero(copied).tolist() == [5, 6, 7]
    # Some words of a copy are others.
    tokens[46 * SEGMENT + 100] = 31
    assert np.flatnonzero(copied_segments(train, held_out, pieces=False).copied).tolist() == [
        5,
        6,
        7,
    ]
    none = replace(held_out, starts=held_out.starts[:0], lengths=held_out.lengths[:0])
    assert len(copied_segments(train, none, pieces=False).copied) == 0


def test_of_a_long_text_only_segments_that_were_compared_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(text_overlap, "_PIECE", 4 * SEGMENT)
    monkeypatch.setattr(text_overlap, "_MOST_ASKED", 8 * SEGMENT)
    monkeypatch.setattr(text_overlap, "MOST_KNOWN", 20 * SEGMENT)
    tokens = letters(60 * SEGMENT)
    tokens[40 * SEGMENT :] = tokens[: 20 * SEGMENT]
    train, held_out = inputs_of(tokens, 0, 40 * SEGMENT), inputs_of(tokens, 40 * SEGMENT, 15360)
    found = copied_segments(train, held_out, pieces=False)
    assert (len(found.compared), int(found.compared.sum()), found.searched) == (20, 8, 0.5)
    assert found.copied.any()
    assert not found.copied[~found.compared].any()


@pytest.mark.parametrize("pieces", [False, True])
def test_few_letters_need_longer_sequences(pieces: bool) -> None:
    tokens = letters(60 * SEGMENT, 4)
    words = np.array([[0, 1, 1, 0, 5], [2, 3, 2, 4, 5], [6, 0, 7, 8, 5]], dtype=np.uint16)
    few = words[letters(12 * SEGMENT, 3)].ravel()
    spans = [TokenSpan(0, 40 * SEGMENT)]
    assert sequence_length(few, spans, pieces=pieces) > 50
    for one in (tokens, few):
        train, held_out = inputs_of(one, 0, 40 * SEGMENT), inputs_of(one, 40 * SEGMENT, 15360)
        assert not copied_segments(train, held_out, pieces=pieces).copied.any()


def test_phrases_do_not_count_unless_they_are_all_there_is() -> None:
    tokens = letters(60 * SEGMENT)
    phrase = letters(SEGMENT, seed=1)
    for at in range(0, 40, 3):
        tokens[at * SEGMENT : (at + 1) * SEGMENT] = phrase
    tokens[50 * SEGMENT : 51 * SEGMENT] = phrase
    train, held_out = inputs_of(tokens, 0, 40 * SEGMENT), inputs_of(tokens, 40 * SEGMENT, 15360)
    assert not copied_segments(train, held_out, pieces=False).copied.any()
    again = np.tile(letters(3 * SEGMENT), 20)
    train, held_out = inputs_of(again, 0, 40 * SEGMENT), inputs_of(again, 40 * SEGMENT, 15360)
    assert copied_segments(train, held_out, pieces=False).copied.mean() > 0.5
