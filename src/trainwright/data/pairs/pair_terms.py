"""Image-text pairs as columns of numbers: pixels of small images and the weights of terms."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
import polars as pl

from trainwright.core.errors import NotAvailable, Problem
from trainwright.core.files import Json
from trainwright.core.formatting import many
from trainwright.data.base.inputs.pair_inputs import PairInputs
from trainwright.data.base.table import Floats, ImageInputs, Inputs, Part, TableInputs
from trainwright.data.columns.matching import unit_rows
from trainwright.data.encoders.encoding import Encoding, NewRows
from trainwright.data.pairs.caption_tokenizer import caption_pieces

SIDE = 16
"""Height and width of the small images."""

_MOST_TERMS = 2000


@final
@dataclass(frozen=True, slots=True)
class PairTerms(Encoding):
    """Means of `channels` x 16 x 16 areas of an image in [0, 1], then the TF-IDF weights of a
    caption by `terms`, which are sorted, and the `rarity` of each: log((1 + N) / (1 + captions with
    it)) + 1, each caption of length 1."""

    channels: int
    terms: tuple[str, ...]
    rarity: tuple[float, ...]
    caption: str

    modality: ClassVar[str] = "pairs"

    @property
    def areas(self) -> int:
        """Numbers of an image."""
        return self.channels * SIDE * SIDE

    def encode(self, images: ImageInputs, captions: Sequence[str]) -> TableInputs:
        """Both as numbers, float32 [N, areas + terms]."""
        numbers = np.concatenate([small_images(images), self.weigh(captions)], axis=1)
        return TableInputs(numbers.astype(np.float32), np.empty((len(numbers), 0), np.int64))

    def weigh(self, captions: Sequence[str]) -> Floats:
        """TF-IDF weights of captions [N, terms]."""
        places = {term: at for at, term in enumerate(self.terms)}
        found = np.zeros((len(captions), len(self.terms)))
        for row, caption in enumerate(captions):
            for term, count in Counter(caption_pieces(caption, "words")).items():
                if term in places:
                    found[row, places[term]] = count
        found *= np.array(self.rarity)
        return unit_rows(found)

    def inputs_of(self, part: Part) -> Iterator[Inputs]:
        """A part of pairs."""
        inputs = PairInputs.of_kind(part.inputs)
        captions = part.frame[self.caption].to_list()
        for start in range(0, len(part), 4096):
            rows = np.arange(start, min(start + 4096, len(part)))
            yield self.encode(inputs.images.take(rows), captions[start : start + 4096])

    def read_new(self, _rows: NewRows, /) -> Inputs:
        """Refused: it is compared with on labelled pairs alone."""
        raise NotAvailable(Problem("a baseline of pairs is judged on pairs, not asked"))

    def trial_inputs(self) -> list[Inputs]:
        """A black image with an empty caption."""
        return [
            self.encode(ImageInputs.of(np.zeros((1, self.channels, SIDE, SIDE), np.uint8)), [""])
        ]

    def shape_json(self, outputs: int) -> Json:
        """Columns of numbers."""
        numeric = self.areas + len(self.terms)
        return {"kind": "table", "numeric": numeric, "cardinalities": [], "outputs": outputs}

    def describe(self, rows: int) -> str:
        """Their number."""
        return f"areas and terms of {many(rows, 'pair')}"

    def to_json(self) -> Json:
        """What `from_json` reads."""
        return {
            "kind": "terms_of_pairs",
            "channels": self.channels,
            "terms": list(self.terms),
            "rarity": list(self.rarity),
            "caption": self.caption,
        }

    @classmethod
    def from_json(cls, json: Json) -> PairTerms:
        """Inverse of `to_json`."""
        terms, rarity = tuple(json["terms"]), tuple(map(float, json["rarity"]))
        if len(terms) != len(rarity) or json["channels"] not in (1, 3):
            raise ValueError("terms of other pairs")
        return cls(json["channels"], terms, rarity, str(json["caption"]))


def fit_pair_terms(images: ImageInputs, captions: pl.Series) -> PairTerms:
    """The commonest terms of training captions, at most 2,000."""
    counts: Counter[str] = Counter()
    for caption in captions.to_list():
        counts.update(set(caption_pieces(caption, "words")))
    kept = sorted(
        term for _, term in sorted((-n, term) for term, n in counts.items())[:_MOST_TERMS]
    )
    rarity = tuple(float(np.log((1 + len(captions)) / (1 + counts[term])) + 1) for term in kept)
    return PairTerms(images.size[0], tuple(kept), rarity, captions.name)


def small_images(images: ImageInputs) -> Floats:
    """Means of areas as equal as possible, [N, channels x 16 x 16] in [0, 1]; images of fewer
    pixels repeat theirs."""
    _, tall, wide = images.size
    rows, columns = _areas(tall), _areas(wide)
    found = [
        np.einsum("ih,nchw,jw->ncij", rows, block / 255.0, columns, optimize=True)
        for block in images.blocks()
    ]
    size = (images.size[0], SIDE, SIDE)
    whole = np.concatenate(found) if found else np.zeros((0, *size))
    return whole.reshape(len(whole), -1)


def _areas(pixels: int) -> Floats:
    """Weights [16, pixels] whose rows average the pixels of an area."""
    edges = np.linspace(0, pixels, SIDE + 1)
    places = np.arange(pixels)
    covered = np.minimum(edges[1:, None], places + 1) - np.maximum(edges[:-1, None], places)
    weights = np.maximum(covered, 0)
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))
