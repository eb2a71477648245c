"""Input shapes of models, and embedding widths."""

from __future__ import annotations

import math
from dataclasses import dataclass

from trainwright.contract.sections.model import TableModel
from trainwright.core.files import Json


@dataclass(frozen=True, slots=True)
class TableShape:
    """Number of numeric columns, cardinality of each categorical column, and number of outputs."""

    numeric: int
    cardinalities: tuple[int, ...]
    outputs: int

    def to_json(self) -> Json:
        """The fields by name."""
        return {
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

    def to_json(self) -> Json:
        """The fields by name."""
        return {
            "size": list(self.size),
            "mean": list(self.mean),
            "deviation": list(self.deviation),
            "outputs": self.outputs,
        }


@dataclass(frozen=True, slots=True)
class TokenShape:
    """Vocabulary size."""

    outputs: int

    def to_json(self) -> Json:
        """The fields by name."""
        return {"outputs": self.outputs}


Shape = TableShape | ImageShape | TokenShape


def shape_from_json(json: Json) -> Shape:
    """Inverse of `to_json`.

    Raises:
        KeyError, TypeError, ValueError: invalid content.
    """
    outputs = int(json["outputs"])
    if "numeric" in json:
        return TableShape(int(json["numeric"]), tuple(json["cardinalities"]), outputs)
    if "size" in json:
        channels, height, width = json["size"]
        size = (channels, height, width)
        return ImageShape(size, tuple(json["mean"]), tuple(json["deviation"]), outputs)
    return TokenShape(outputs)


PERIODIC_FREQUENCIES = 48
PERIODIC_WIDTH = 16
"""Learned frequencies, and embedding width, of each number with `numeric_embedding: periodic`."""


def embedding_width(categories: int) -> int:
    """min(50, ceil(1.6 * categories ** 0.56)): the rule of thumb of fastai's tabular models."""
    width: float = 1.6 * categories**0.56
    return min(50, math.ceil(width))


def embedding_widths(section: TableModel, shape: TableShape) -> list[int]:
    """Embedding width of each categorical column."""
    if section.embedding_dim == "auto":
        return [embedding_width(size) for size in shape.cardinalities]
    return [section.embedding_dim] * len(shape.cardinalities)


def table_width(section: TableModel, shape: TableShape) -> int:
    """Input width of a network for tables: numbers and embeddings."""
    numbers = shape.numeric * (PERIODIC_WIDTH if section.numeric_embedding == "periodic" else 0)
    return shape.numeric + sum(embedding_widths(section, shape)) + numbers
