"""Image-text pairs as pixels and tokens, or as columns of numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
import polars as pl

from trainwright.core.errors import DataMistake, NotAvailable, Problem
from trainwright.core.files import Json
from trainwright.core.formatting import many
from trainwright.data.base.categories import safe_quantiles
from trainwright.data.base.inputs import Floats, ImageInputs, Inputs, Part, TableInputs
from trainwright.data.base.pair_inputs import PairInputs
from trainwright.data.base.token_inputs import TextInputs
from trainwright.data.columns.retrieval_targets import unit_rows
from trainwright.data.encoders.encoding import Encoding, InputColumn, NewRows
from trainwright.data.encoders.pixel_statistics import Pixels
from trainwright.data.pairs.caption_tokenizer import (
    TOKENIZER,
    BaseCaptions,
    CaptionTokenizer,
    caption_pieces,
    read_caption_tokens,
    trial_text,
)

SIDE = 16
"""Height and width of the small images."""

_MOST_TERMS = 2000


@final
@dataclass(frozen=True, slots=True)
class PairEncoder(Encoding):
    """Statistics of the training images, and the tokens of the training captions, of which the
    longest has `longest`. `caption` is the column of new captions."""

    pixels: Pixels
    captions: CaptionTokenizer | BaseCaptions
    longest: int
    caption: str

    modality: ClassVar[str] = "pairs"
    side_files: ClassVar[tuple[str, ...]] = (TOKENIZER,)

    knows_images: ClassVar[bool] = True
    profiled_rows: ClassVar[int] = 1000

    def read_new(self, rows: NewRows, /) -> Inputs:
        """Images of an array, or captions of a frame: both have embeddings of one space."""
        try:
            frame = rows.frame()
        except DataMistake:
            return self.pixels.read(rows.images())
        return self.read_captions(frame, rows.source)

    def read_captions(self, frame: pl.DataFrame, source: str = "the rows") -> TextInputs:
        """The captions of a frame.

        Raises:
            DataMistake: it has no such column, or a caption is missing.
        """
        if self.caption not in frame.columns:
            raise DataMistake(
                Problem(
                    f"{source} have no column {self.caption!r}",
                    found=", ".join(frame.columns[:10]) or "no column",
                    expected=f"captions in {self.caption!r}, or an array of images",
                    fix="rename the column of the texts",
                )
            )
        texts = frame[self.caption].cast(pl.String)
        if missing := texts.null_count():
            raise DataMistake(
                Problem(
                    f"{many(missing, 'row has', 'rows have')} no caption",
                    found=f"{self.caption!r} is missing",
                    expected="a text in every row",
                    fix="repair these rows, or leave them out",
                )
            )
        return self.captions.tokenize(texts.to_list())

    def profile(self, part: Part, /) -> dict[str, Json]:
        """Brightness and contrast of the images, and lengths of the captions."""
        inputs = PairInputs.of_kind(part.inputs)
        images = Part(part.name, part.frame, inputs.images, part.target, part.rows, part.units)
        lengths = safe_quantiles(inputs.texts.lengths.astype(np.float64))
        return {**self.pixels.profile(images), "caption_tokens": lengths}

    def signature(self, profile: Mapping[str, Json], /) -> list[InputColumn]:
        """Images of one size, and texts."""
        return [*self.pixels.signature(profile), InputColumn(self.caption, "text")]

    def trial_inputs(self) -> list[Inputs]:
        """A black image with a text of the last token."""
        texts = trial_text(self.captions, self.longest)
        return [
            PairInputs(ImageInputs.of_kind(images), texts) for images in self.pixels.trial_inputs()
        ]

    def shape_json(self, outputs: int) -> Json:
        """That of the images, with the tokens of the captions."""
        # A base has as many positions as it has; ours as a caption may have.
        length = self.longest if self.captions.content else self.captions.max_length
        sizes = {"vocabulary": self.captions.size, "length": length}
        return {**self.pixels.shape_json(outputs), **sizes, "kind": self.modality}

    def describe(self, rows: int) -> str:
        """Their number, the size of the images, and the vocabulary."""
        unit = self.captions.unit
        return f"{self.pixels.describe(rows)} with captions of {self.captions.size:,} {unit}"

    def describe_cuts(self, parts: Sequence[Part], /) -> str:
        """Captions that were cut."""
        cut = [PairInputs.of_kind(part.inputs).texts.cut.rows for part in parts]
        if not sum(cut):
            return ""
        return f"{many(sum(cut), 'caption')} longer than {self.captions.max_length} tokens: cut"

    @property
    def tokenizer_json(self) -> str:
        """That of a base, as the tokenizers library writes it; empty for tokens of our own."""
        return self.captions.content

    def beside(self) -> Mapping[str, str]:
        """`tokenizer.json` of a base."""
        return {TOKENIZER: self.tokenizer_json} if self.tokenizer_json else {}

    def identity(self) -> Json:
        """What decides every encoded pair."""
        return {**self.to_json(), "captions": self.captions.identity()}

    def to_json(self) -> Json:
        """What `from_json` reads."""
        return {
            "kind": self.modality,
            "pixels": self.pixels.to_json(),
            "captions": self.captions.to_json(),
            "longest": self.longest,
            "caption": self.caption,
        }

    @classmethod
    def from_json(cls, json: Json) -> PairEncoder:
        """Inverse of `to_json`."""
        longest = json["longest"]
        if type(longest) is not int or longest < 1:
            raise ValueError("features.json names captions of no length")
        told = json["captions"]
        captions = read_caption_tokens(told, json)
        return cls(
            Pixels.from_json(json["pixels"]),
            captions,
            longest,
            str(json["caption"]),
        )


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
