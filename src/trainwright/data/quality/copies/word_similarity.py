"""Near-duplicate texts by shared IDF-weighted words."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl

from trainwright.data.base.table import Floats, Integers

SHARED = 0.8
"""Minimum shared IDF weight of near duplicates with at least ten distinct words."""

SHARED_LETTERS = 0.8
"""Otherwise texts share half of the weight and have this Jaccard similarity of character trigrams:
typos change words, but few letters."""

_FEWEST_WORDS = 10
_LEAST_SHARED = 0.5
_MOST_TEXTS_OF_A_KEY = 50
_KEYS = 6
_LETTERS = 3
_PART = 100_000


def word_pairs(plain: pl.Series) -> Integers:
    """Pairs [P, 2] of different texts [N] (lower case, words separated by one blank) that share
    most of their IDF weight, in any word order.

    Candidates share a key: one of a text's six rarest words or six rarest bigrams, of those in 2 to
    50 texts.
    """
    flat = pl.DataFrame({"text": np.arange(len(plain)), "word": plain.str.split(" ")})
    flat = flat.explode("word").filter(pl.col("word") != "")
    words = flat.unique(maintain_order=True)
    if not words.height:
        return np.empty((0, 2), dtype=np.int64)
    before = pl.col("word").shift(1).over("text")
    twos = flat.with_columns(word=before + " " + pl.col("word")).drop_nulls().unique()
    candidates = pl.concat([_sharing(words), _sharing(twos)]).unique().sort("one", "other")
    one, other = (candidates[name].to_numpy() for name in ("one", "other"))
    share, fewest = _shared_weight(words, len(plain), one, other)
    near = (share >= SHARED) & (fewest >= _FEWEST_WORDS)
    for at in np.flatnonzero((share >= _LEAST_SHARED) & ~near).tolist():
        near[at] = _alike(plain[int(one[at])], plain[int(other[at])])
    pairs: Integers = np.stack([one[near], other[near]], axis=1).astype(np.int64)
    return pairs


def _sharing(keys: pl.DataFrame) -> pl.DataFrame:
    """Candidate pairs with a shared key, as columns `one` and `other`."""
    texts = pl.len().over("word").alias("texts")
    rare = keys.with_columns(texts).filter(pl.col("texts").is_between(2, _MOST_TEXTS_OF_A_KEY))
    rare = rare.sort("text", "texts", "word")
    rare = rare.filter(pl.int_range(pl.len()).over("text") < _KEYS).select("text", "word")
    pairs = rare.join(rare, on="word").filter(pl.col("text") < pl.col("text_right"))
    return pairs.select(one="text", other="text_right").unique()


def _shared_weight(
    words: pl.DataFrame, texts: int, one: Integers, other: Integers
) -> tuple[Floats, npt.NDArray[np.int64]]:
    """Shared weight of each pair [P] over the mean weight of the two texts, and the number of
    distinct words of the shorter one."""
    # Imported here to keep image runs free of it.
    from scipy.sparse import csr_matrix

    weights = words.select((texts / pl.len().over("word")).log().alias("weight"))["weight"]
    codes = words["word"].rank("dense").cast(pl.Int64).to_numpy() - 1
    places = words["text"].to_numpy(), codes
    shape = texts, int(codes.max()) + 1
    weighed = csr_matrix((weights.to_numpy(), places), shape=shape)
    there = csr_matrix((np.ones(len(codes)), places), shape=shape)
    total = np.asarray(weighed.sum(axis=1)).ravel()
    count = np.bincount(words["text"].to_numpy(), minlength=texts)
    shared = np.zeros(len(one))
    for start in range(0, len(one), _PART):
        rows = slice(start, start + _PART)
        both = weighed[one[rows]].multiply(there[other[rows]])
        shared[rows] = np.asarray(both.sum(axis=1)).ravel()
    share: Floats = 2 * shared / np.maximum(total[one] + total[other], 1e-300)
    return share, np.minimum(count[one], count[other])


def _alike(one: str, other: str) -> bool:
    first, second = _threes(one), _threes(other)
    shared = len(first & second)
    return shared >= SHARED_LETTERS * (len(first) + len(second) - shared)


def _threes(text: str) -> set[str]:
    return {text[at : at + _LETTERS] for at in range(max(1, len(text) - _LETTERS + 1))}
