"""Input shapes of models and of prepared data, and embedding widths."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from trainwright.core.files import Json
from trainwright.data.types import Prepared

if TYPE_CHECKING:
    from torch import Tensor

PERIODIC_FREQUENCIES = 48

PERIODIC_WIDTH = 16
"""Learned frequencies, and embedding width, of each number with `numeric_embedding: periodic`."""


@dataclass(frozen=True, slots=True)
class TableShape:
    """Number of numeric columns, cardinality of each categorical column, and number of outputs."""

    numeric: int
    cardinalities: tuple[int, ...]
    outputs: int

    kind: ClassVar[str] = "table"
    names: ClassVar[tuple[str, ...]] = ("numeric", "categories")
    """Of the tensors of `empty_rows`, as in a batch."""

    @property
    def is_possible(self) -> bool:
        """Could data have it?"""
        return self.outputs >= 1 and self.numeric >= 0

    def empty_rows(self, rows: int, _context: int) -> tuple[Tensor, ...]:
        """Inputs of a network without values, on the default device. Needs torch."""
        import torch

        codes = torch.empty(rows, len(self.cardinalities), dtype=torch.int64)
        return torch.empty(rows, self.numeric), codes

    def to_json(self) -> Json:
        """The fields by name."""
        return {
            "kind": self.kind,
            "numeric": self.numeric,
            "cardinalities": list(self.cardinalities),
            "outputs": self.outputs,
        }


@dataclass(frozen=True, slots=True)
class ImageShape:
    """Channels, height and width of the images, mean and standard deviation of each channel (0 to
    255), and number of outputs."""

    size: tuple[int, int, int]
    mean: tuple[float, ...]
    deviation: tuple[float, ...]
    outputs: int

    kind: ClassVar[str] = "images"
    names: ClassVar[tuple[str, ...]] = ("pixels",)

    @property
    def is_possible(self) -> bool:
        """Could data have it?"""
        return self.outputs >= 1

    def empty_rows(self, rows: int, _context: int) -> tuple[Tensor, ...]:
        """Inputs of a network without values, on the default device. Needs torch."""
        import torch

        return (torch.empty(rows, *self.size, dtype=torch.uint8),)

    def to_json(self) -> Json:
        """The fields by name."""
        return {
            "kind": self.kind,
            "size": list(self.size),
            "mean": list(self.mean),
            "deviation": list(self.deviation),
            "outputs": self.outputs,
        }


@dataclass(frozen=True, slots=True)
class TokenShape:
    """Vocabulary size."""

    outputs: int

    kind: ClassVar[str] = "tokens"
    names: ClassVar[tuple[str, ...]] = ("tokens",)

    @property
    def is_possible(self) -> bool:
        """Could data have it?"""
        return self.outputs >= 1

    def empty_rows(self, rows: int, context: int) -> tuple[Tensor, ...]:
        """Inputs of a network without values, on the default device. Needs torch."""
        import torch

        return (torch.empty(rows, context, dtype=torch.int64),)

    def to_json(self) -> Json:
        """The fields by name."""
        return {"kind": self.kind, "outputs": self.outputs}


@dataclass(frozen=True, slots=True)
class TextShape:
    """Tokens of the longest text, and number of outputs."""

    length: int
    outputs: int

    kind: ClassVar[str] = "texts"
    names: ClassVar[tuple[str, ...]] = ("input_ids",)

    @property
    def is_possible(self) -> bool:
        """Could data have it?"""
        return self.outputs >= 1 and self.length >= 1

    def empty_rows(self, rows: int, _context: int) -> tuple[Tensor, ...]:
        """Inputs of a network without values, on the default device. Needs torch."""
        import torch

        return (torch.empty(rows, self.length, dtype=torch.int64),)

    def to_json(self) -> Json:
        """The fields by name."""
        return {"kind": self.kind, "length": self.length, "outputs": self.outputs}


@dataclass(frozen=True, slots=True)
class PairShape:
    """Size and channel statistics of the images, as of an `ImageShape`, tokens of the vocabulary
    and of the longest caption, and number of outputs."""

    size: tuple[int, int, int]
    mean: tuple[float, ...]
    deviation: tuple[float, ...]
    vocabulary: int
    length: int
    outputs: int

    kind: ClassVar[str] = "pairs"
    names: ClassVar[tuple[str, ...]] = ("pixels", "input_ids")

    @property
    def is_possible(self) -> bool:
        """Could data have it?"""
        return min(self.outputs, self.length, self.vocabulary) >= 1

    def empty_rows(self, rows: int, _context: int) -> tuple[Tensor, ...]:
        """Inputs of a network without values, on the default device. Needs torch."""
        import torch

        pixels = torch.empty(rows, *self.size, dtype=torch.uint8)
        return pixels, torch.empty(rows, self.length, dtype=torch.int64)

    def to_json(self) -> Json:
        """The fields by name."""
        return {
            "kind": self.kind,
            "size": list(self.size),
            "mean": list(self.mean),
            "deviation": list(self.deviation),
            "vocabulary": self.vocabulary,
            "length": self.length,
            "outputs": self.outputs,
        }


@dataclass(frozen=True, slots=True)
class CaptionShape:
    """Size and channel statistics of the images, as of an `ImageShape`, and tokens of the
    vocabulary."""

    size: tuple[int, int, int]
    mean: tuple[float, ...]
    deviation: tuple[float, ...]
    outputs: int

    kind: ClassVar[str] = "captions"
    names: ClassVar[tuple[str, ...]] = ("tokens", "pixels")

    @property
    def is_possible(self) -> bool:
        """Could data have it?"""
        return self.outputs >= 1 and min(self.size) >= 1

    def empty_rows(self, rows: int, context: int) -> tuple[Tensor, ...]:
        """Inputs of a network without values, on the default device. Needs torch."""
        import torch

        tokens = torch.empty(rows, context, dtype=torch.int64)
        return tokens, torch.empty(rows, *self.size, dtype=torch.uint8)

    def to_json(self) -> Json:
        """The fields by name."""
        return {
            "kind": self.kind,
            "size": list(self.size),
            "mean": list(self.mean),
            "deviation": list(self.deviation),
            "outputs": self.outputs,
        }


@dataclass(frozen=True, slots=True)
class TextPairShape:
    """Tokens of the vocabulary and of the longest text, hard negatives of a training row, and
    number of outputs."""

    vocabulary: int
    length: int
    negatives: int
    outputs: int

    kind: ClassVar[str] = "text_pairs"

    @property
    def names(self) -> tuple[str, ...]:
        """The inputs of a network."""
        hard = ("negative_ids",) if self.negatives else ()
        return ("query_ids", "passage_ids", *hard)

    @property
    def is_possible(self) -> bool:
        """Could data have it?"""
        return min(self.outputs, self.length, self.vocabulary) >= 1 and self.negatives >= 0

    def empty_rows(self, rows: int, _context: int) -> tuple[Tensor, ...]:
        """Inputs of a network without values, on the default device. Needs torch."""
        import torch

        sides = [(rows, self.length)] * 2
        hard = [(rows, self.negatives, self.length)] if self.negatives else []
        return tuple(torch.empty(*size, dtype=torch.int64) for size in (*sides, *hard))

    def to_json(self) -> Json:
        """The fields by name."""
        return {
            "kind": self.kind,
            "vocabulary": self.vocabulary,
            "length": self.length,
            "negatives": self.negatives,
            "outputs": self.outputs,
        }


Shape = TableShape | ImageShape | TokenShape | TextShape | PairShape | TextPairShape | CaptionShape


def shape_from_json(json: Json) -> Shape:
    """Inverse of `to_json`. Earlier versions wrote no kind.

    Raises:
        KeyError, TypeError, ValueError: invalid content.
    """
    outputs = int(json["outputs"])
    earlier = "table" if "numeric" in json else "images" if "size" in json else "tokens"
    match json.get("kind", earlier):
        case "table":
            return TableShape(int(json["numeric"]), tuple(json["cardinalities"]), outputs)
        case "images" | "captions" as kind:
            channels, height, width = json["size"]
            size = (channels, height, width)
            shape = ImageShape if kind == "images" else CaptionShape
            return shape(size, tuple(json["mean"]), tuple(json["deviation"]), outputs)
        case "tokens":
            return TokenShape(outputs)
        case "texts":
            return TextShape(int(json["length"]), outputs)
        case "pairs":
            channels, height, width = json["size"]
            size, statistics = (channels, height, width), (json["mean"], json["deviation"])
            mean, deviation = map(tuple, statistics)
            sizes = int(json["vocabulary"]), int(json["length"])
            return PairShape(size, mean, deviation, *sizes, outputs)
        case "text_pairs":
            sizes = int(json["vocabulary"]), int(json["length"])
            return TextPairShape(*sizes, int(json["negatives"]), outputs)
        case kind:
            raise ValueError(f"inputs of kind {kind!r}")


def embedding_width(categories: int) -> int:
    """min(50, ceil(1.6 * categories ** 0.56)): the rule of thumb of fastai's tabular models."""
    width: float = 1.6 * categories**0.56
    return min(50, math.ceil(width))


def shape_of(prepared: Prepared) -> Shape:
    """Input shape of the data."""
    return shape_from_json(prepared.features.shape_json(prepared.target.network_outputs))


def longest_sample(prepared: Prepared) -> int:
    """The most rows of a sample: of a ranking those of a training query, else 1."""
    queries = prepared.target.queries(prepared.train.frame)
    return 1 if queries is None else int(np.bincount(queries).max())
