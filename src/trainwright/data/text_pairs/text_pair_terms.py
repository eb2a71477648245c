"""Text pairs as columns of numbers: how often terms occur, or what that weighs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from trainwright.core.errors import NotAvailable, Problem
from trainwright.core.files import Json
from trainwright.core.formatting import many
from trainwright.data.base.table import Floats, Inputs, Part, TableInputs
from trainwright.data.columns.matching import unit_rows
from trainwright.data.encoders.encoding import Encoding, NewRows
from trainwright.data.pairs.caption_tokenizer import caption_pieces

_MOST_TERMS = 2000
_ROWS = 1024


@final
@dataclass(frozen=True, slots=True)
class TextPairTerms(Encoding):
    """Counts of `terms`, which are sorted, in a query and in its passage, N x [2 T]; or with
    `rarity` their TF-IDF weights, each text of length 1. What no term counts is counted in one
    further column of `counts`, by which a passage has its length."""

    terms: tuple[str, ...]
    rarity: tuple[float, ...]
    query: str
    passage: str

    modality: ClassVar[str] = "text_pairs"

    @property
    def width(self) -> int:
        """Numbers of a text."""
        return len(self.terms) + (not self.rarity)

    def count(self, texts: Sequence[str]) -> Floats:
        """Numbers of texts [N, width]."""
        places = {term: at for at, term in enumerate(self.terms)}
        found = np.zeros((len(texts), self.width))
        for row, text in enumerate(texts):
            for term, count in Counter(caption_pieces(text, "words")).items():
                if term in places:
                    found[row, places[term]] += count
                elif not self.rarity:
                    found[row, -1] += count
        return unit_rows(found * np.array(self.rarity)) if self.rarity else found

    def inputs_of(self, part: Part) -> Iterator[Inputs]:
        """A part of pairs."""
        for start in range(0, len(part), _ROWS):
            frame = part.frame[start : start + _ROWS]
            yield self.encode(frame[self.query].to_list(), frame[self.passage].to_list())

    def encode(self, queries: Sequence[str], passages: Sequence[str]) -> TableInputs:
        """Both as numbers, float32 [N, 2 width]."""
        numbers = np.concatenate([self.count(queries), self.count(passages)], axis=1)
        return TableInputs(numbers.astype(np.float32), np.empty((len(numbers), 0), np.int64))

    def read_new(self, _rows: NewRows, /) -> Inputs:
        """Refused: it is compared with on labelled pairs alone."""
        raise NotAvailable(Problem("a baseline of pairs is judged on pairs, not asked"))

    def trial_inputs(self) -> list[Inputs]:
        """Empty texts."""
        return [self.encode([""], [""])]

    def shape_json(self, outputs: int) -> Json:
        """Columns of numbers."""
        return {"kind": "table", "numeric": 2 * self.width, "cardinalities": [], "outputs": outputs}

    def describe(self, rows: int) -> str:
        """Their number."""
        return f"terms of {many(rows, 'pair')}"

    def to_json(self) -> Json:
        """What `from_json` reads."""
        return {
            "kind": "terms_of_text_pairs",
            "terms": list(self.terms),
            "rarity": list(self.rarity),
            "query": self.query,
            "passage": self.passage,
        }

    @classmethod
    def from_json(cls, json: Json) -> TextPairTerms:
        """Inverse of `to_json`."""
        terms, rarity = tuple(json["terms"]), tuple(map(float, json["rarity"]))
        if rarity and len(terms) != len(rarity):
            raise ValueError("terms of other pairs")
        return cls(terms, rarity, str(json["query"]), str(json["passage"]))


def common_terms(texts: Sequence[str], most: int = _MOST_TERMS) -> dict[str, int]:
    """The commonest words of texts, sorted, and in how many texts each occurs."""
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(set(caption_pieces(text, "words")))
    often = sorted((-count, term) for term, count in counts.items())[:most]
    return {term: counts[term] for term in sorted(term for _, term in often)}
