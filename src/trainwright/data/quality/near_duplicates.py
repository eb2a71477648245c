"""Rows that are nearly the same: one text with small changes, one table row with other rounding."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import polars as pl

from trainwright.core.formatting import many
from trainwright.core.hashing import hash_bytes
from trainwright.data.base.table import Floats, Integers
from trainwright.data.quality.chance_agreement import Agreement
from trainwright.data.quality.duplicates import (
    across_parts,
    compared,
    first_of_each,
    first_of_group,
    typed_frame,
)
from trainwright.data.quality.finding import Finding
from trainwright.data.quality.time_series import HOURS
from trainwright.data.quality.views import ColumnView, ExaminedData
from trainwright.data.quality.word_similarity import word_pairs

SIMILAR = 0.8
"""Jaccard similarity of the 5-character shingles from which two texts are near duplicates."""

TOLERANCE = 0.002
"""Numbers of two near-duplicate rows differ by at most so many deviations of their column."""

FEWEST_NUMBERS, FINE = 3, 100
"""Rows of numbers are compared where so many columns have more different values than that: else
chance makes pairs."""

MOST_ROWS = 1_000_000
"""Near duplicates are not looked for in more rows."""

FEWEST_LETTERS = 20
"""Shorter texts are near only where their letters and digits are the same."""

_FEWEST_COLUMNS, _MOST_COLUMNS = 4, 100
_TARGET = "\x00target"
_SHINGLE = 5
_PERMUTATIONS = 64
_BAND = 4
_MOST_IN_A_BUCKET = 50
_PART = 2_000
_KEPT = 2_000


def near_duplicates(data: ExaminedData) -> list[Finding]:
    """Rows that are nearly, and not exactly, an earlier row.

    Where the features are texts, of rows with equal numbers their letters and digits in lower case
    are compared: the same, or a Jaccard similarity of at least 0.8 between their 5-character
    shingles, found by MinHash with 64 permutations in bands of 4 and then computed exactly; or
    nearly the same words (see `near_words`). Elsewhere rows are near where every number is within
    0.002 deviations of the other row's, and words are equal but for case, blanks and punctuation,
    dates and the target's class exactly; there must be three columns of fine numbers, else chance
    makes such pairs. And they are where they agree in all columns but one and in the target, and
    not by chance. More than 1,000,000 rows are not compared so, and it is said.
    """
    if len(data) > MOST_ROWS:
        text = f"near duplicates are not looked for: {len(data):,} rows, at most {MOST_ROWS:,} are"
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
    # A row that equals a training row exactly is found elsewhere.
    equal = np.isin(exact, exact[data.parts == 0]) & (data.parts != 0)
    near = data.take(np.flatnonzero(~equal))
    return [finding, *across_parts(near, group[~equal], "near_duplicates")]


def near_groups(data: ExaminedData) -> tuple[Integers, Integers, str]:
    """For each row [N] the first row that equals it in its features, the first row of those that it
    is nearly equal to (by pairs, one after the other), and what nearly means here."""
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
        pairs = np.concatenate([row_pairs(data, looks, firsts), _but_for_one(data, looks, firsts)])
        what = (
            f"every number is within {TOLERANCE} deviations and every word the same, or one column "
            "differs"
        )
    group = np.arange(len(data))
    group[firsts] = firsts[first_of_group(len(firsts), pairs)]
    return exact, group[exact], what


def _of_equal_numbers(looks: Sequence[ColumnView], firsts: Integers, pairs: Integers) -> Integers:
    """The pairs [P, 2] of rows `firsts` whose numbers are the same: brothers have nearly one name,
    and each his age."""
    one, other = firsts[pairs[:, 0]], firsts[pairs[:, 1]]
    same = np.ones(len(pairs), dtype=np.bool_)
    for look in looks:
        if look.kind == "numeric":
            same &= look.values.gather(one).eq_missing(look.values.gather(other)).to_numpy()
    equal: Integers = pairs[same]
    return equal


def text_pairs(texts: pl.Series) -> Integers:
    """Pairs [P, 2] of texts [N] that are nearly the same."""
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
    """Pairs [P, 2] of different texts in ascending order. Those of the last texts are kept: the
    checks of the quality and the audit of the split ask for the same."""
    key = hash_bytes("\n".join(plain.to_list()).encode())
    found = _LAST.get(key)
    if found is None:
        found = _different_pairs(plain)
        _LAST.clear()
        _LAST[key] = found
    return found


_LAST: dict[str, Integers] = {}


def _different_pairs(plain: pl.Series) -> Integers:
    # Imported here: rows of numbers need not wait for it.
    from rensa import RMinHash

    # Part by part, and the few that are compared once more: shingles take a hundred times the
    # memory of their text.
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
    """Letters and digits in lower case, one blank between words."""
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
    # Imported here and below: a run on a text or on images need not wait for it.
    from scipy.spatial import cKDTree

    others = [look for look in looks if look not in numeric]
    exact = [normalised(o.values) if o.values.dtype == pl.String else o.values for o in others]
    if data.task == "classes":
        exact.append(data.labels.alias(_TARGET))
    frame = pl.DataFrame([series.alias(str(i)) for i, series in enumerate(exact)])
    blocks = first_of_each(frame) if frame.width else np.zeros(len(data), dtype=np.int64)
    points = [scaled(look.numbers) for look in numeric]
    # Rows of different words lie a whole unit apart in one more direction, numbers far less.
    points.append(blocks.astype(np.float64))
    tree = cKDTree(np.stack(points, axis=1)[rows])
    pairs = tree.query_pairs(TOLERANCE, p=np.inf, output_type="ndarray")
    return np.asarray(pairs, dtype=np.int64)


def _but_for_one(data: ExaminedData, looks: list[ColumnView], rows: Integers) -> Integers:
    """Pairs [P, 2] among `rows` (as positions in it) that agree in their target and in all
    columns but one. Of few columns the one that differs says as much as the others."""
    if not _FEWEST_COLUMNS <= len(looks) <= _MOST_COLUMNS or len(rows) < 2:
        return np.empty((0, 2), dtype=np.int64)
    columns = [
        normalised(one.values) if one.values.dtype == pl.String else one.values for one in looks
    ]
    if data.task == "classes":
        columns.append(data.labels.alias(_TARGET))
    elif data.task == "numbers":
        # What was measured again under another condition is no copy.
        columns.append(data.of_name(data.target).values.alias(_TARGET))
    agreement = Agreement.of(pl.DataFrame(columns)[rows], frozenset({_TARGET}))
    # What is as it was at another time did not change, and is no copy.
    times = [one.kind == "datetime" or one.name.lower() in HOURS for one in looks]
    return agreement.but_for_one(np.flatnonzero(~np.array(times)))


def scaled(values: Floats) -> Floats:
    """Values in deviations, of their middle 98 %; a missing value is far from every other."""
    low, high = np.nanquantile(values, (0.01, 0.99))
    middle = values[(values >= low) & (values <= high)]
    deviation = float(middle.std()) if len(middle) else 0.0
    if not deviation:
        deviation = float(np.nanstd(values)) or 1.0
    return np.nan_to_num(values / deviation, nan=-1e6)


def _fine(looks: list[ColumnView]) -> list[ColumnView]:
    """Numeric columns with more than 100 different values, if there are at least three."""
    fine = [look for look in looks if look.kind == "numeric" and look.values.n_unique() > FINE]
    return fine if len(fine) >= FEWEST_NUMBERS else []


def _joined(looks: list[ColumnView]) -> pl.Series:
    """The texts of each row, one after the other."""
    frame = pl.DataFrame([look.values.cast(pl.String).fill_null("") for look in looks])
    return frame.select(pl.concat_str(pl.all(), separator=" \n ").alias("text"))["text"]
