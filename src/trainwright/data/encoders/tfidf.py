"""TF-IDF features of text columns, optionally reduced by a truncated SVD.

The weights are those of scikit-learn's TfidfVectorizer (smooth_idf, norm l2, its own pattern of
words). Terms are counted here and not there so that a fitted column is plain JSON. Of scripts
without spaces between words, the terms are characters and pairs of them.
"""

from __future__ import annotations

import base64
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, final

import numpy as np
import numpy.typing as npt
import polars as pl

from trainwright.contract.key_paths import as_key
from trainwright.contract.sections.data.table_data import TextFeatures
from trainwright.contract.sections.section import settled
from trainwright.core.errors import DataMistake, Problem
from trainwright.core.files import Json
from trainwright.core.formatting import many
from trainwright.data.base.inputs import Floats, SparseColumns, sparse_of

_WORD = re.compile(r"\b\w\w+\b")
_UNSPACED = re.compile(
    # Thai, Lao, Myanmar, Khmer; Japanese; Chinese characters and their extensions.
    "[\u0e01-\u0e4e\u0e81-\u0ece\u1000-\u103f\u1780-\u17d3\u3041-\u30fa\u30fc-\u312f\u31f0-\u31ff"
    "\u3005\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff]+"
)
"""A passage in a script without spaces between words."""
_FEWEST = 1e-9
"""Directions below this share of the strongest are noise of the arithmetic."""


@final
@dataclass(frozen=True, slots=True)
class Terms:
    """A fitted text column: its `terms` in alphabetical order with a `weight` [T] each (the inverse
    document frequency), of at most `words` words; `directions` float32 [T, K], where K is 0 if
    every term is a column. `unspaced`: passages without spaces are divided into characters."""

    column: str
    words: int
    terms: tuple[str, ...]
    weights: Floats
    directions: npt.NDArray[np.float32]
    unspaced: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The numeric columns."""
        if count := self.directions.shape[1]:
            return tuple(f"{self.column} (direction {at + 1})" for at in range(count))
        return tuple(f"{self.column} ({term})" for term in self.terms)

    def transform(self, texts: pl.Series) -> npt.NDArray[np.float32]:
        """The directions [N, K]; a missing text has no term, so it is 0 everywhere."""
        weighted = self._weighted(texts)
        return np.asarray(weighted @ self.directions.astype(np.float64)).astype(np.float32)

    def weigh(self, texts: pl.Series) -> SparseColumns:
        """The weights of the terms [N, T], where every term is a column."""
        return sparse_of(self._weighted(texts))

    @property
    def is_reduced(self) -> bool:
        """Whether directions stand for the terms."""
        return bool(self.directions.shape[1])

    def identity(self) -> Json:
        """What decides the column. The directions follow from it but for the last bits, which
        depend on the machine that computes them."""
        return {
            "column": self.column,
            "words": self.words,
            "terms": list(self.terms),
            "weights": self.weights.tolist(),
            "directions": self.directions.shape[1],
            # Omitted if false, so that existing data versions stay valid.
            **({"unspaced": True} if self.unspaced else {}),
        }

    def to_json(self) -> Json:
        """What `from_json` reads: the directions as base64 of little-endian 32-bit floats."""
        held = base64.b64encode(self.directions.astype("<f4").tobytes()).decode()
        return {**self.identity(), "values": held}

    @classmethod
    def from_json(cls, value: Json) -> Terms:
        """The column that `to_json` wrote."""
        held = np.frombuffer(base64.b64decode(value["values"]), dtype="<f4").astype(np.float32)
        terms = tuple(value["terms"])
        return cls(
            column=value["column"],
            words=value["words"],
            terms=terms,
            weights=np.array(value["weights"], dtype=np.float64),
            directions=held.reshape(len(terms), value["directions"]),
            unspaced=value.get("unspaced", False),
        )

    def split(self, text: str) -> Iterable[str]:
        """The terms in a text, in any order and with repetitions."""
        text = text.lower()
        if self.unspaced:
            for passage in _UNSPACED.findall(text):
                yield from passage
                yield from map("".join, pairwise(passage))
            text = _UNSPACED.sub(" ", text)
        words = _WORD.findall(text)
        for count in range(1, self.words + 1):
            for start in range(len(words) - count + 1):
                yield " ".join(words[start : start + count])

    def _weighted(self, texts: pl.Series) -> Any:
        """Sparse float64 [N, T]: count x weight, each row of length 1 or 0."""
        from scipy.sparse import csr_matrix

        places = {term: at for at, term in enumerate(self.terms)}
        columns: list[int] = []
        counts: list[int] = []
        ends = [0]
        for text in texts:
            found = Counter(places[term] for term in self.split(text or "") if term in places)
            columns += sorted(found)
            counts += [found[at] for at in sorted(found)]
            ends.append(len(columns))
        at = np.array(columns, dtype=np.int64)
        values = np.array(counts, dtype=np.float64) * self.weights[at]
        rows = np.repeat(np.arange(len(texts)), np.diff(ends))
        length = np.sqrt(np.bincount(rows, values**2, minlength=len(texts)))
        values /= length[rows]
        return csr_matrix((values, at, np.array(ends)), shape=(len(texts), len(self.terms)))


def fit_terms(texts: pl.Series, section: TextFeatures, *, alone: bool = True) -> Terms:
    """Fit on the training rows of a column; `alone`: there is no other feature.

    Raises:
        DataMistake: no term of the only feature is in enough rows.
    """
    unspaced = any(_UNSPACED.search(text or "") for text in texts)
    none = np.empty((0, 0), dtype=np.float32)
    fitted = Terms(texts.name, section.words, (), np.empty(0), none, unspaced)
    rows = Counter[str]()
    times = Counter[str]()
    for text in texts:
        found = Counter(fitted.split(text or ""))
        rows.update(found.keys())
        times.update(found)
    often = [term for term in times if rows[term] >= section.rows]
    # Equal counts by spelling: the order of the rows must not decide.
    often.sort(key=lambda term: (-times[term], term))
    terms = tuple(sorted(often[: settled(section.terms)]))
    if alone and not terms:
        problem = Problem(
            "no term of the text column is in enough training rows",
            path=str(texts.name),
            found=f"{many(len(times), 'term')}, none of them in {many(section.rows, 'row')}",
            fix=f"set data.columns.{as_key(str(texts.name))}.kind to categorical or ignored, or "
            "data.features.text.rows to 1",
        )
        raise DataMistake([problem])
    known = np.array([rows[term] for term in terms], dtype=np.float64)
    weights = np.log((1 + len(texts)) / (1 + known)) + 1
    none = none.reshape(len(terms), 0)
    fitted = replace(fitted, terms=terms, weights=weights, directions=none)
    if settled(section.reduce) == "none" or not terms:
        return fitted
    return replace(fitted, directions=_directions(fitted._weighted(texts), section.components))


def _directions(weighted: Any, components: int) -> npt.NDArray[np.float32]:
    """The right singular vectors of the strongest directions over their root mean square, [T, K].

    The sign of each is such that its largest entry is positive.
    """
    from scipy.sparse.linalg import svds

    rows, terms = weighted.shape
    most = min(components, rows - 1, terms - 1)
    if most < 1:
        return np.empty((terms, 0), dtype=np.float32)
    # From a fixed start, so that the same rows give the same directions.
    _, strength, vectors = svds(weighted, k=most, v0=np.ones(min(rows, terms)))
    order = np.argsort(-strength)
    strength, vectors = strength[order], vectors[order]
    kept = strength > _FEWEST * strength[0]
    strength, vectors = strength[kept], vectors[kept]
    largest = np.abs(vectors).argmax(axis=1)
    signs = np.sign(vectors[np.arange(len(vectors)), largest])
    mean_square = strength / np.sqrt(rows)
    return np.asarray((vectors * (signs / mean_square)[:, None]).T, dtype=np.float32)
