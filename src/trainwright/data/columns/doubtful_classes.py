"""Target classes with several spellings."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from trainwright.contract.sections.data.column import Column
from trainwright.core.formatting import many
from trainwright.data.base.cells.cleaned_cells import Cells
from trainwright.data.base.cells.parse_cells import to_labels
from trainwright.data.base.cells.spelling import folded
from trainwright.data.base.cells.value_counts import counted_slices
from trainwright.data.base.messages import some
from trainwright.data.columns.doubts import Doubt

_MOST_SPELLINGS = 2000
_ANSWERS = (("true", "false"), ("yes", "no"), ("1", "0"), ("y", "n"), ("t", "f"))


def find_class_spellings(cells: Cells) -> Doubt | None:
    """Proposed canonical spelling of each class; None if spellings are unique."""
    if cells.dtype != pl.String or not cells.present or not cells.not_numbers:
        return None
    if cells.distinct > _MOST_SPELLINGS:
        return None
    counts = counted_slices(to_labels(one.drop_nulls()) for one in cells.slices())
    spellings = _yes_or_no(counts) or one_spelling(counts)
    if not spellings:
        return None
    known = len(counts)
    shown = some([f"{one!r} for {other!r}" for one, other in spellings.items()], 3)
    reason = f"{known - len(spellings):,} classes in {many(known, 'spelling')}: {shown}"
    return Doubt(cells.name, Column(values=dict(spellings)), reason)


def _yes_or_no(counts: pl.DataFrame) -> Mapping[str, str]:
    """For each spelling of yes and no (`TRUE`, `1`, `y`) another one of its side: that of the pair
    that most rows are written in. Nothing where other classes stand beside these, which may be
    codes, or where each side has one spelling."""
    plain = folded(counts["value"], "kept").to_list()
    sides = {word: side for pair in _ANSWERS for side, word in enumerate(pair)}
    found = [sides.get(word, -1) for word in plain]
    if len(found) < 3 or set(found) != {0, 1}:
        return {}
    rows = dict.fromkeys(plain, 0)
    for word, count in zip(plain, counts["count"], strict=True):
        rows[word] += count
    whole = [pair for pair in _ANSWERS if set(pair) <= set(rows)]
    pair = max(whole, key=lambda pair: sum(rows[word] for word in pair), default=())
    values = counts["value"].to_list()
    # The commonest spelling comes first.
    wanted = [
        next(at for at, word in enumerate(plain) if found[at] == side and word in (pair or plain))
        for side in (0, 1)
    ]
    chosen = [values[at] for at in wanted]
    named = {value: chosen[side] for value, side in zip(values, found, strict=True)}
    return {value: name for value, name in named.items() if value != name}


def one_spelling(spellings: pl.DataFrame) -> Mapping[str, str]:
    """Map from each word of `counted` that is a variant (case, blanks, hyphens or a final full
    stop) of a more frequent one to that one. Single letters are distinct classes: `a` is not
    `A`."""
    spellings = spellings.with_columns(folded(spellings["value"], "kept").alias("plain"))
    spellings = spellings.filter(pl.col("plain").str.len_chars() > 1)
    first = pl.col("value").first().over("plain").alias("first")
    others = spellings.with_columns(first).filter(pl.col("value") != pl.col("first"))
    return dict(zip(others["value"].to_list(), others["first"].to_list(), strict=True))
