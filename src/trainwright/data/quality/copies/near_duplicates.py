"""Near-duplicate rows and texts: small edits, shared words, other rounding."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import polars as pl

from trainwright.core.files import hash_bytes
from trainwright.core.formatting import many
from trainwright.data.base.inputs import Floats, Integers
from trainwright.data.quality.copies.duplicates import (
    across_parts,
    compared,
    first_of_each,
    first_of_group,
    typed_frame,
)
from trainwright.data.quality.examined_data import ColumnView, ExaminedData
from trainwright.data.quality.finding import Finding

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
_PART_OF_WORDS = 100_000


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
    for start in range(0, len(one), _PART_OF_WORDS):
        rows = slice(start, start + _PART_OF_WORDS)
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


SIMILAR = 0.8
"""Minimum Jaccard similarity of the 5-character shingles of near-duplicate texts."""

TOLERANCE = 0.002
"""Maximum difference of the numbers of near-duplicate rows, in standard deviations of the
column."""

FEWEST_NUMBERS, FINE = 3, 100
"""Numeric rows are compared if this many columns have more distinct values than this; otherwise
pairs arise by chance."""

MOST_ROWS = 1_000_000
"""Row limit of the near-duplicate check."""

FEWEST_LETTERS = 20
"""Shorter texts are near duplicates only with identical letters and digits."""

_TARGET = "\x00target"
_SHINGLE = 5
_PERMUTATIONS = 64
_BAND = 4
_MOST_IN_A_BUCKET = 50
_PART = 2_000
_KEPT = 2_000


def near_duplicates(data: ExaminedData) -> list[Finding]:
    """Rows that are near, not exact, duplicates of an earlier row.

    Text features: among rows with equal numbers, the lower-case letters and digits are identical,
    or have a Jaccard similarity of at least 0.8 between 5-character shingles (candidates by MinHash
    with 64 permutations in bands of 4, then computed exactly), or the words are nearly the same
    (see `word_pairs`). Other features: every number is within 0.002 standard deviations, words are
    equal up to case, blanks and punctuation, and dates and the target's class are equal; this needs
    three columns of fine-grained numbers, and most of them known, otherwise such pairs arise by
    chance. More than 1,000,000 rows are not compared, which is a finding.
    """
    if len(data) > MOST_ROWS:
        text = f"no near-duplicate check: {len(data):,} rows, limit {MOST_ROWS:,}"
        return [Finding("near_duplicates", "info", text)]
    exact, group, what = near_groups(data)
    first = exact == np.arange(len(data))
    copies = np.flatnonzero((group != np.arange(len(data))) & first)
    if not len(copies):
        return []
    finding = Finding(
        "near_duplicates",
        "warning",
        f"{many(len(copies), 'row is', 'rows are')} nearly an earlier row: {what}",
        len(copies),
        data.places(copies),
        fix="data.quality.actions: {near_duplicates: drop} keeps the first in training",
    )
    # Exact copies of a training row are a finding of their own.
    equal = np.isin(exact, exact[data.parts == 0]) & (data.parts != 0)
    near = data.take(np.flatnonzero(~equal))
    return [finding, *across_parts(near, group[~equal], "near_duplicates")]


def near_groups(data: ExaminedData) -> tuple[Integers, Integers, str]:
    """For each row [N] the index of the first row with equal features, that of the first row of its
    connected component of near duplicates, and the criterion in words."""
    alone = np.arange(len(data))
    if not 2 <= len(data) <= MOST_ROWS:
        return alone, alone, ""
    looks = compared(data.features)
    if not looks:
        return alone, alone, ""
    exact = first_of_each(typed_frame(data, [look.name for look in looks]))
    firsts = np.flatnonzero(exact == np.arange(len(data)))
    if any(look.kind == "text" for look in looks) and not _fine(looks):
        pairs = _of_equal_numbers(looks, firsts, text_pairs(_joined(looks).gather(firsts)))
        what = f"their letters or words have a similarity of at least {SIMILAR}"
    else:
        pairs = row_pairs(data, looks, firsts)
        what = f"every number is within {TOLERANCE} deviations and every word the same"
    group = np.arange(len(data))
    group[firsts] = firsts[first_of_group(len(firsts), pairs)]
    return exact, group[exact], what


def _of_equal_numbers(looks: Sequence[ColumnView], firsts: Integers, pairs: Integers) -> Integers:
    """Pairs [P, 2] of rows `firsts` with equal numbers: siblings have similar names but different
    ages."""
    one, other = firsts[pairs[:, 0]], firsts[pairs[:, 1]]
    same = np.ones(len(pairs), dtype=np.bool_)
    for look in looks:
        if look.kind == "numeric":
            same &= look.values.gather(one).eq_missing(look.values.gather(other)).to_numpy()
    equal: Integers = pairs[same]
    return equal


def text_pairs(texts: pl.Series) -> Integers:
    """Near-duplicate pairs [P, 2] of texts [N]."""
    plain = normalised(texts)
    first = first_of_each(plain.to_frame("text"))
    same = np.flatnonzero(first != np.arange(len(first)))
    kept = np.flatnonzero(
        (first == np.arange(len(first))) & (plain.str.len_chars() >= FEWEST_LETTERS).to_numpy()
    )
    pairs = [np.stack([first[same], same], axis=1)]
    if len(kept) > 1:
        kept = kept[plain.gather(kept).arg_sort().to_numpy()]
        pairs.append(kept[_last_pairs(plain.gather(kept))])
    return np.concatenate(pairs)


def _last_pairs(plain: pl.Series) -> Integers:
    """Pairs [P, 2] of different texts, ascending, with a one-entry cache: the quality checks and
    the audit of the split need the same pairs."""
    key = hash_bytes("\n".join(plain.to_list()).encode())
    found = _LAST.get(key)
    if found is None:
        found = _different_pairs(plain)
        _LAST.clear()
        _LAST[key] = found
    return found


_LAST: dict[str, Integers] = {}


def _different_pairs(plain: pl.Series) -> Integers:
    # Imported here to keep numeric data free of it.
    from rensa import RMinHash

    # In chunks, with the shingles of the few candidates computed again: they take a hundred times
    # the memory of their text.
    signatures = np.concatenate(
        [
            np.array(
                RMinHash.digest_matrix_from_token_sets(
                    [_shingles(text) for text in plain.slice(start, _PART)], _PERMUTATIONS, 0
                ).to_rows(),
                dtype=np.uint32,
            )
            for start in range(0, len(plain), _PART)
        ]
    )
    shingles = lru_cache(_KEPT)(lambda row: _shingles(plain[row]))
    near = [(i, j) for i, j in _candidates(signatures) if _jaccard(shingles(i), shingles(j))]
    found = np.array(near, dtype=np.int64).reshape(-1, 2)
    return np.concatenate([found, word_pairs(plain)])


def normalised(texts: pl.Series) -> pl.Series:
    """Lower-case letters and digits, words separated by one blank."""
    folded = texts.fill_null("").str.to_lowercase().str.replace_all(r"[^\p{L}\p{N}]+", " ")
    return folded.str.strip_chars()


def _shingles(text: str) -> set[str]:
    return {text[i : i + _SHINGLE] for i in range(max(1, len(text) - _SHINGLE + 1))}


def _jaccard(one: set[str], other: set[str]) -> bool:
    shared = len(one & other)
    return shared >= SIMILAR * (len(one) + len(other) - shared)


def _candidates(signatures: np.ndarray) -> list[tuple[int, int]]:
    """Pairs that share a band of their signatures [N, 64]."""
    found: set[tuple[int, int]] = set()
    for start in range(0, signatures.shape[1], _BAND):
        band = np.ascontiguousarray(signatures[:, start : start + _BAND]).view(
            np.dtype((np.void, 4 * _BAND))
        )[:, 0]
        _, buckets, sizes = np.unique(band, return_inverse=True, return_counts=True)
        order = np.argsort(buckets, kind="stable")
        ends = np.cumsum(sizes)
        for bucket in np.flatnonzero(sizes > 1):
            members = order[ends[bucket] - sizes[bucket] : ends[bucket]][:_MOST_IN_A_BUCKET]
            listed = [int(member) for member in members]
            found.update((i, j) for at, i in enumerate(listed) for j in listed[at + 1 :])
    return sorted(found)


def row_pairs(data: ExaminedData, looks: list[ColumnView], rows: Integers) -> Integers:
    """Pairs [P, 2] among `rows` (as positions in it) that are nearly the same."""
    numeric = _fine(looks) or []
    if len(numeric) < FEWEST_NUMBERS:
        return np.empty((0, 2), dtype=np.int64)
    # Imported here and below to keep text and image runs free of it.
    from scipy.spatial import cKDTree

    others = [look for look in looks if look not in numeric]
    exact = [normalised(o.values) if o.values.dtype == pl.String else o.values for o in others]
    if data.task == "classes":
        exact.append(data.labels.alias(_TARGET))
    frame = pl.DataFrame([series.alias(str(i)) for i, series in enumerate(exact)])
    blocks = first_of_each(frame) if frame.width else np.zeros(len(data), dtype=np.int64)
    points = [scaled(look.numbers) for look in numeric]
    # Different words are a whole unit apart along an extra dimension, near numbers far less.
    points.append(blocks.astype(np.float64))
    known = np.isfinite([look.numbers for look in numeric]).sum(axis=0)
    # Rows that lack the same numbers have little in common.
    able = np.flatnonzero(known[rows] >= fewest_known(len(numeric)))
    tree = cKDTree(np.stack(points, axis=1)[rows[able]])
    pairs = tree.query_pairs(TOLERANCE, p=np.inf, output_type="ndarray")
    return able[np.asarray(pairs, dtype=np.int64)]


def fewest_known(numbers: int) -> int:
    """So many of the compared numbers must be known of two rows that are nearly the same."""
    return max(FEWEST_NUMBERS, numbers // 2 + 1)


def scaled(values: Floats) -> Floats:
    """Values over the standard deviation of their central 98 %; a missing value is far from all
    others."""
    low, high = np.nanquantile(values, (0.01, 0.99))
    middle = values[(values >= low) & (values <= high)]
    deviation = float(middle.std()) if len(middle) else 0.0
    if not deviation:
        deviation = float(np.nanstd(values)) or 1.0
    return np.nan_to_num(values / deviation, nan=-1e6)


def _fine(looks: list[ColumnView]) -> list[ColumnView]:
    """Numeric columns with more than 100 distinct values, if there are at least three."""
    fine = [look for look in looks if look.kind == "numeric" and look.values.n_unique() > FINE]
    return fine if len(fine) >= FEWEST_NUMBERS else []


def _joined(looks: list[ColumnView]) -> pl.Series:
    """Concatenated texts of each row."""
    frame = pl.DataFrame([look.values.cast(pl.String).fill_null("") for look in looks])
    return frame.select(pl.concat_str(pl.all(), separator=" \n ").alias("text"))["text"]
