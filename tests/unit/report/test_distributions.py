"""Distributions of the data: counted for the run folder, drawn in the report."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path

import numpy as np
import polars as pl

from made_data import make_text
from trainwright.contract.sections.data.images import ImageData
from trainwright.contract.sections.data.table_data import Features, TableData
from trainwright.contract.sections.data.tokens import TokenData
from trainwright.data.base.inputs import ImageInputs
from trainwright.data.images.prepare_images import prepare_images
from trainwright.data.images.raw_images import RawImages, facts_of
from trainwright.data.prepare_table import prepare_table
from trainwright.data.read_table import read_table
from trainwright.data.statistics.profile import BINS, Distribution, distributions_of
from trainwright.data.text.prepare_text import prepare_tokens, read_tokens
from trainwright.report.figures.confusion_and_histograms import HEIGHT, view_distributions

ROWS = 400


def of_table(folder: Path) -> dict[str, Distribution]:
    random = np.random.default_rng(0)
    pl.DataFrame(
        {
            "size": random.normal(0, 1, ROWS),
            "town": random.choice([f"t{i}" for i in range(12)], ROWS),
            "doors": random.integers(1, 4, ROWS),
            "day": [date(2020, 1, 1) + timedelta(days=3 * i) for i in range(ROWS)],
            "price": random.lognormal(3, 1, ROWS),
        }
    ).write_parquet(folder / "rows.parquet")
    features = Features(numeric="none", impute="median")
    given = {"path": "rows.parquet", "target": "price", "split": {"kind": "random"}}
    section = TableData.model_validate({**given, "features": features})
    raw = read_table(section, folder)
    prepared = prepare_table(raw, section, "regression", 0)
    found = distributions_of(prepared)
    for one in found:
        assert sum(one.train) == len(prepared.train)
        assert sum(one.held_out) == ROWS - len(prepared.train)
        assert Distribution.from_json(one.to_json()) == one
    return {one.name: one for one in found}


def test_columns_of_a_table(tmp_path: Path) -> None:
    found = of_table(tmp_path)
    assert list(found) == ["price", "size", "town", "doors", "day"]
    assert len(found["size"].train) == len(found["price"].held_out) == BINS
    assert found["size"].low < -2 < 2 < found["size"].high
    assert found["town"].labels[-1] == "4 others"
    assert len(found["town"].labels) == 9
    assert found["doors"].labels == ("1", "2", "3")
    assert set(found["day"].labels) == {"2020", "2021", "2022", "2023"}

    views = {one.name: one for one in view_distributions(tuple(found.values()))}
    (shape,) = views["size"].shape
    assert max(height for *_, height in shape.bars) <= HEIGHT
    assert all(abs(top + height - HEIGHT) < 0.02 for _, top, _, height in shape.bars)
    assert len(shape.line) == 2 * BINS
    doors = views["doors"].shares
    assert abs(sum(one.train for one in doors) - 100) < 0.1
    assert doors[0].train_share.endswith("%")


def test_classes_of_images_and_lengths_of_documents(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 255, (60, 1, 12, 12)).astype(np.uint8)
    labels = {"train": np.arange(60) % 3}
    names = ("a", "b", "c")
    raw = RawImages({"train": ImageInputs.of(pixels)}, labels, names, facts_of(labels, names, ()))
    images = ImageData(kind="images", path="x", test=0.25, validation=0.25)
    (label,) = distributions_of(prepare_images(raw, images, 0))
    assert label.labels == names
    assert sum(label.train) + sum(label.held_out) == 60

    random = np.random.default_rng(0)
    documents = ["ab" * int(random.integers(5, 60)) for _ in range(100)]
    pl.DataFrame({"text": documents}).write_parquet(tmp_path / "texts.parquet")
    named = {"path": "texts.parquet", "text": "text", "windows": "packed", "test": 0.2}
    section = TokenData.model_validate({"kind": "tokens", "reading": {"cache": "off"}, **named})
    (lengths,) = distributions_of(prepare_tokens(read_tokens(section, tmp_path), section))
    assert lengths.name == "tokens of a document"
    assert sum(lengths.train) + sum(lengths.held_out) == 100

    make_text(tmp_path / "text.txt")
    section = TokenData.model_validate(
        {"kind": "tokens", "reading": {"cache": "off"}, "path": "text.txt"}
    )
    assert distributions_of(prepare_tokens(read_tokens(section, tmp_path), section)) == ()


def test_a_column_of_one_value_has_an_axis() -> None:
    one = Distribution("x", (3,) * BINS, (0,) * BINS, (), -0.5, 0.5)
    (view,) = view_distributions([one])
    assert view.shape[0].line == ()
    assert view.shape[0].low == "−0.5000"
    assert view_distributions([Distribution("y", (0, 0), (0, 0), ("a", "b"))]) == ()
