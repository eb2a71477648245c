"""Network input shapes of prepared data."""

from __future__ import annotations

from typing import assert_never

from trainwright.data.encoders.pixel_statistics import Pixels
from trainwright.data.encoders.table_encoder import TableEncoder
from trainwright.data.encoders.vocabulary import TextVocabulary
from trainwright.data.types import Prepared
from trainwright.model.input_shape import ImageShape, Shape, TableShape, TokenShape


def shape_of(prepared: Prepared) -> Shape:
    """Input shape of the data."""
    outputs = prepared.target.outputs
    match prepared.features:
        case TableEncoder() as table:
            return TableShape(len(table.numeric_names), table.cardinalities, outputs)
        case Pixels() as images:
            size = (images.channels, images.height, images.width)
            return ImageShape(size, images.mean, images.deviation, outputs)
        case TextVocabulary():
            return TokenShape(outputs)
        case _:
            assert_never(prepared.features)
