"""What prepared data looks like to a network."""

from __future__ import annotations

from typing import assert_never

from trainwright.data.features import Features
from trainwright.data.pixels import Pixels
from trainwright.data.prepared import Prepared
from trainwright.data.vocabulary import TextVocabulary
from trainwright.model.shape import ImageShape, Shape, TableShape, TokenShape


def shape_of(prepared: Prepared) -> Shape:
    """What the data looks like to a network."""
    outputs = prepared.target.outputs
    match prepared.features:
        case Features() as table:
            return TableShape(len(table.numeric_names), table.cardinalities, outputs)
        case Pixels() as images:
            size = (images.channels, images.height, images.width)
            return ImageShape(size, images.mean, images.deviation, outputs)
        case TextVocabulary():
            return TokenShape(outputs)
        case _:
            assert_never(prepared.features)
