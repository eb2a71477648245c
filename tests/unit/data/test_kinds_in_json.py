"""Encodings, targets and shapes name their kind in JSON, and are told apart by nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainwright.contract.sections.data.table_data import TableData
from trainwright.core.files import Json
from trainwright.data.columns.class_target import Classes, NextToken
from trainwright.data.columns.number_target import Numbers
from trainwright.data.columns.target import Target, target_from_json
from trainwright.data.encoders.pixel_statistics import Pixels, Rule
from trainwright.data.encoders.vocabulary import TextVocabulary
from trainwright.data.prepare_table import prepare_table
from trainwright.data.read_table import read_table
from trainwright.data.types import ENCODINGS, Prepared, encoding_from_json
from trainwright.model.input_shape import (
    ImageShape,
    Shape,
    TableShape,
    TokenShape,
    shape_from_json,
)

PIXELS = Pixels(1, 2, 2, (1.0,), (2.0,), Rule((2, 2), "grey", "stretch", "bilinear", 100))
SHAPES = (TableShape(2, (3,), 4), ImageShape((1, 2, 2), (1.0,), (2.0,), 3), TokenShape(9))
TARGETS = (Classes("y", ("a", "b"), 0), Numbers("y", 1.0, 2.0), NextToken(9))


@pytest.fixture
def table(tmp_path: Path) -> Prepared:
    rows = "".join(f"{at},{'ab'[at % 2]},{'xy'[at % 2]}\n" for at in range(60))
    (tmp_path / "rows.csv").write_text("n,c,y\n" + rows)
    section = TableData.model_validate(
        {"path": "rows.csv", "target": "y", "split": {"kind": "stratified"}}
    )
    return prepare_table(read_table(section, tmp_path), section, "classification", 0)


def test_an_encoding_names_its_kind(table: Prepared) -> None:
    for encoding in (table.features, PIXELS, TextVocabulary("bytes")):
        written = encoding.to_json()
        assert ENCODINGS[written["kind"]] is type(encoding)
        assert encoding_from_json(written).to_json() == written


def test_an_encoding_without_a_kind_is_that_of_a_table(table: Prepared) -> None:
    written = table.features.to_json()
    del written["kind"]
    assert encoding_from_json(written).to_json() == table.features.to_json()
    with pytest.raises(ValueError, match="an encoding of kind 'sounds'"):
        encoding_from_json({**written, "kind": "sounds"})


def test_the_version_of_the_data_does_not_depend_on_the_name_of_its_kind(table: Prepared) -> None:
    assert "kind" not in table.table.identity()


@pytest.mark.parametrize("shape", SHAPES)
def test_a_shape_names_its_kind_and_one_without_is_read(shape: Shape) -> None:
    written = shape.to_json()
    assert written["kind"] == shape.kind
    assert shape_from_json(written) == shape
    del written["kind"]
    assert shape_from_json(written) == shape
    with pytest.raises(ValueError, match="inputs of kind 'sounds'"):
        shape_from_json({**written, "kind": "sounds"})


@pytest.mark.parametrize("target", TARGETS)
def test_a_target_is_read_by_its_kind(target: Target) -> None:
    written: Json = target.to_json()
    assert written["kind"] == target.kind
    assert target_from_json(written) == target


def test_what_an_encoding_says_of_its_inputs_is_their_shape(table: Prepared) -> None:
    assert shape_from_json(table.features.shape_json(2)).kind == table.train.inputs.kind
    assert shape_from_json(PIXELS.shape_json(3)) == SHAPES[1]
    assert shape_from_json(TextVocabulary("bytes").shape_json(256)) == TokenShape(256)
