"""Counts of the column encoder that networks for tables share."""

from __future__ import annotations

from typing import Literal, Protocol, runtime_checkable

from trainwright.contract.sections.section import Auto
from trainwright.model.input_shape import (
    PERIODIC_FREQUENCIES,
    PERIODIC_WIDTH,
    Shape,
    TableShape,
    embedding_width,
)


# Checked at calls of `table_columns` in tests, by beartype.
@runtime_checkable
class ColumnSettings(Protocol):
    """The fields of a section that say how columns are encoded."""

    @property
    def embedding_dim(self) -> Auto | int:
        """Width of each category's embedding."""
        ...

    @property
    def numeric_embedding(self) -> Literal["none", "periodic"]:
        """Encoding of a number."""
        ...


def of_table(shape: Shape) -> TableShape:
    """The shape, which the rules have settled to be a table's."""
    assert isinstance(shape, TableShape)
    return shape


def embedding_widths(section: ColumnSettings, shape: TableShape) -> list[int]:
    """Embedding width of each categorical column."""
    if section.embedding_dim == "auto":
        return [embedding_width(size) for size in shape.cardinalities]
    return [section.embedding_dim] * len(shape.cardinalities)


def table_width(section: ColumnSettings, shape: TableShape) -> int:
    """Input width of a network for tables: numbers and embeddings."""
    numbers = shape.numeric * (PERIODIC_WIDTH if section.numeric_embedding == "periodic" else 0)
    return shape.numeric + sum(embedding_widths(section, shape)) + numbers


def embedding_sizes(section: ColumnSettings, shape: TableShape) -> list[int]:
    """Elements of each weight of the encoder."""
    widths = embedding_widths(section, shape)
    sizes = [size * one for size, one in zip(shape.cardinalities, widths, strict=True)]
    if section.numeric_embedding == "periodic" and shape.numeric:
        sizes.append(shape.numeric * PERIODIC_FREQUENCIES)
        sizes.append(2 * PERIODIC_FREQUENCIES * PERIODIC_WIDTH)
    return sizes


def count_column_parameters(section: ColumnSettings, shape: TableShape) -> int:
    """Trainable parameters of the encoder."""
    periodic = section.numeric_embedding == "periodic" and shape.numeric
    return sum(embedding_sizes(section, shape)) + (PERIODIC_WIDTH if periodic else 0)


def count_column_products(section: ColumnSettings, shape: TableShape) -> int:
    """Multiply-accumulates of the encoder for one row."""
    if section.numeric_embedding == "none":
        return 0
    return shape.numeric * 2 * PERIODIC_FREQUENCIES * PERIODIC_WIDTH


def count_column_activations(section: ColumnSettings, shape: TableShape) -> int:
    """Numbers that the encoder keeps of one row for the backward pass."""
    numbers = table_width(section, shape)
    if section.numeric_embedding == "periodic":
        numbers += shape.numeric * (3 * PERIODIC_FREQUENCIES + 1 + PERIODIC_WIDTH)
    return numbers


def count_linear(inputs: int, outputs: int) -> int:
    """Parameters of a linear layer with bias."""
    return (inputs + 1) * outputs
