"""A column as codes, and what its name and the order of its rows say of units."""

from __future__ import annotations

import re
from functools import cached_property
from typing import Literal, final

import numpy as np
import polars as pl

from trainwright.data.base.inputs import Integers
from trainwright.data.columns.column_kinds import name_tokens

UNIT_WORDS = frozenset(
    {"subject", "subj", "patient", "user", "customer", "client", "person", "people", "pers", "id"}
    | {"student", "pupil", "employee", "worker", "member", "participant", "respondent", "resp"}
    | {"player", "driver", "household", "hh", "family", "session", "rater", "reviewer", "author"}
    | {"account", "owner", "host", "teacher", "doctor", "physician", "child", "mother", "speaker"}
    | {"writer", "passenger", "visitor", "individual", "indiv", "case", "judge", "operator", "uid"}
    | {"animal", "mouse", "rat", "dog", "cow", "pig", "sheep", "bird", "fish", "monkey", "tree"}
    | {"plant", "leaf", "litter", "pair", "couple", "twin", "cluster", "psu", "batch", "lot"}
    | {"sample", "specimen", "shop", "store", "station", "machine", "device", "sensor", "site"}
    | {"school", "classroom", "hospital", "clinic", "center", "centre", "farm", "vehicle"}
    | {"car", "building", "house", "plot", "well", "pond", "tank", "pot", "firm", "company", "bank"}
    | {"ticker", "symbol", "permno", "gvkey", "team", "club", "village", "lab", "laboratory"}
    | {"contestant", "candidate", "competitor", "athlete", "applicant", "voter", "resident"}
    | {"tenant", "vendor", "supplier", "agent", "nurse", "pilot", "inspector", "coach"}
    | {"replicate", "genotype", "strain", "clone", "group", "movie", "film", "song", "artist"}
    | {"airport", "route", "ident"}
)
"""Words in a column's name that say whose row it is."""

_PLACES = frozenset(
    {"county", "district", "city", "town", "state", "province", "country", "nation", "region"}
    | {"location", "area"}
)
"""Words of geography. Survey rows that are sorted by state are no groups for that alone."""

_NUMBERS = frozenset({"code", "nr", "num", "no", "number", "key"})
"""Words that number something: persons (`nr`), or the levels of a score (`rad_num`)."""

_ID_ENDING = re.compile(r"(?<!pa)(?<!val)(?<!ac)(?<!gr)(?<!b)(?<!m)(?<!flu)(?<!sol)(?<!ster)id$")
_NUMBER_ENDING = re.compile(r"code$|num$")
"""Endings of a name without a separator: `patid`, `dcode`."""

_REPEATED, _TOGETHER = 10, 0.8
_MANY, _ROWS_OF_MANY = 20, 4
_MOST_OF_FEW, _MOST_OF_MANY = 1.25, 4


@final
class CodedColumn:
    """One column of typed rows in file order."""

    def __init__(self, values: pl.Series, name: str = "") -> None:
        self.name = name or values.name
        self.values = values

    @cached_property
    def codes(self) -> Integers:
        """A code of each value from 1 on, int64 [N], in the order of the values but for text; 0
        where missing."""
        if self.values.dtype == pl.String:
            words = pl.Enum(self.values.drop_nulls().unique(maintain_order=True))
            ranks = self.values.cast(words).to_physical().cast(pl.Int64) + 1
        else:
            ranks = self.values.rank("dense")
        return ranks.fill_null(0).cast(pl.Int64).to_numpy()

    @cached_property
    def distinct(self) -> int:
        """Number of distinct values."""
        return int(self.values.n_unique())

    @cached_property
    def is_whole(self) -> bool:
        """Are all values integers?"""
        if not self.values.dtype.is_numeric():
            return False
        present = self.values.drop_nulls()
        return bool((present == present.floor()).all())

    @property
    def repeats(self) -> bool:
        """Does every tenth row have the value of an earlier one?"""
        return (len(self.values) - self.distinct) * _REPEATED >= len(self.values)

    @cached_property
    def lies_together(self) -> bool:
        """Do rows of one value follow each other, with few exceptions?"""
        return self.repeats and self.follows_within(np.zeros_like(self.codes))

    def follows_within(self, blocks: Integers) -> bool:
        """Do rows with equal value and equal block [N] follow each other far more often than in a
        random order?"""
        pairs = self.codes * (int(blocks.max()) + 1) + blocks
        sizes = np.unique(pairs, return_counts=True)[1]
        following = int(np.count_nonzero(np.diff(pairs) == 0))
        by_chance = float((sizes * (sizes - 1)).sum()) / len(pairs)
        most = len(pairs) - len(sizes)
        return following - by_chance >= _TOGETHER * (most - by_chance)

    @cached_property
    def named(self) -> Literal["unit", "place", "number", ""]:
        """What the column's name says that it identifies."""
        words = name_tokens(self.name)
        if words & _PLACES:
            return "place"
        if words & UNIT_WORDS or any(_ID_ENDING.search(word) for word in words):
            return "unit"
        if words & _NUMBERS or any(_NUMBER_ENDING.search(word) for word in words):
            return "number"
        return ""

    @cached_property
    def sizes(self) -> Integers:
        """Rows of each value."""
        counts = np.bincount(self.codes)
        return counts[counts > 0]

    @property
    def is_even(self) -> bool:
        """Several rows of each value and none with many more than the others, unlike a count: of
        few values as in a balanced design, of many as in a log."""
        largest, smallest = self.sizes.max() / self.sizes.mean(), self.sizes.min()
        if len(self.sizes) < _MANY:
            return bool(largest <= _MOST_OF_FEW and smallest > 1)
        several = len(self.values) >= _ROWS_OF_MANY * len(self.sizes)
        return bool(largest <= _MOST_OF_MANY) and (several or smallest == self.sizes.max())
