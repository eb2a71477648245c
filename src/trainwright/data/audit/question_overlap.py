"""Questions that stand in the training text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple, final

import numpy as np
import numpy.typing as npt

from trainwright.core.formatting import many
from trainwright.data.audit.text_overlap import (
    COMMON,
    MOST_KNOWN,
    TokenSpan,
    count_ngrams,
    hash_ngrams,
    some_spans,
)
from trainwright.data.base.token_inputs import TokenInputs, Tokens
from trainwright.data.encoders.vocabulary import TextVocabulary
from trainwright.data.questions.question_file import ReadQuestion

LONGEST, SHORTEST = 13, 8
"""Words of an n-gram, between which the 5th percentile of the questions decides (Brown et al. 2020,
arXiv:2005.14165, appendix C)."""

FEWEST = 4
"""Words of the shortest question that is looked for, as a whole."""

_WORD = re.compile(r"\w+")
_BLOCK = 2**20
_OTHER = 0

Mask = npt.NDArray[np.bool_]


@final
class QuestionOverlap(NamedTuple):
    """Which of N questions stand in the training text, bool [N], and in words how that was
    found."""

    contaminated: Mask
    method: str


def overlapping_questions(
    questions: Sequence[ReadQuestion], train: TokenInputs, vocabulary: TextVocabulary
) -> QuestionOverlap:
    """Questions that share an n-gram of words with the text of the training part.

    Words are lower case without punctuation. A question of n words or more is contaminated if one
    of its n-grams occurs there, unless it does more than `COMMON` times and others of the question
    do not occur at all: that is a phrase. A shorter one is, if all of its words occur there in a
    row, wherever it has at least `FEWEST`.
    """
    words = [_WORD.findall(one.text.lower()) for one in questions]
    codes = {word: at for at, word in enumerate(sorted({w for one in words for w in one}), 1)}
    sizes = np.array([len(one) for one in words])
    length = int(np.clip(np.percentile(sizes, 5), SHORTEST, LONGEST))
    rows = [np.array([codes[word] for word in one], np.uint32) for one in words]
    text, share = _training_words(train, vocabulary, codes)
    contaminated = np.zeros(len(rows), np.bool_)
    for size in sorted({min(length, size) for size in sizes.tolist() if size >= FEWEST}):
        asked = np.flatnonzero(np.minimum(sizes, length) == size)
        grams = [hash_ngrams(rows[at], TokenSpan(0, len(rows[at])), size) for at in asked.tolist()]
        wanted = np.unique(np.concatenate(grams))
        counts = count_ngrams(text, [TokenSpan(0, len(text))], wanted, size)
        for at, one in zip(asked.tolist(), grams, strict=True):
            found = counts[np.searchsorted(wanted, one)]
            rare = (found > 0) & (found <= COMMON)
            contaminated[at] = bool(rare.any() or (found > 0).all())
    short = int((sizes < FEWEST).sum())
    method = f"{length}-grams of words, shorter questions as a whole"
    if short:
        method += f"; {many(short, 'question')} of fewer than {FEWEST} words not looked for"
    if share < 1:
        method += f"; {share:.1%} of the training text searched"
    return QuestionOverlap(contaminated, method)


def _training_words(
    train: TokenInputs, vocabulary: TextVocabulary, codes: dict[str, int]
) -> tuple[Tokens, float]:
    """The words of the training text as numbers, `_OTHER` for those of no question, and the share
    of the text that was read."""
    spans = list(_training_spans(train))
    some = some_spans(spans, MOST_KNOWN)
    found: list[Tokens] = []
    for span in some:
        # No n-gram reaches from one span into the next.
        rest, found = "", [*found, np.zeros(1, np.uint32)]
        for start in range(span.start, span.stop, _BLOCK):
            stop = min(span.stop, start + _BLOCK)
            text = rest + vocabulary.decode(train.tokens[start:stop])
            # A word may go on in the next block.
            end = len(text) if stop == span.stop else _last_gap(text)
            text, rest = text[:end], text[end:]
            each = [codes.get(word, _OTHER) for word in _WORD.findall(text.lower())]
            found.append(np.array(each, np.uint32))
    size = sum(one.stop - one.start for one in spans)
    share = sum(one.stop - one.start for one in some) / size if size else 1.0
    return np.concatenate([*found, np.zeros(1, np.uint32)]), share


def _last_gap(text: str) -> int:
    gaps = [found.end() for found in re.finditer(r"\W", text[-1000:])]
    return len(text) - min(1000, len(text)) + gaps[-1] if gaps else len(text)


def _training_spans(train: TokenInputs) -> Iterator[TokenSpan]:
    """The text of each source, from the beginning of its first document on."""
    for _, start, stop in train.source_spans().tolist():
        begin = start - 1
        if len(train.documents) > 1:
            begin = int(train.documents[np.searchsorted(train.documents, start, "right") - 1])
        yield TokenSpan(max(0, begin), stop)
