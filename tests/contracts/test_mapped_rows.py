"""Rows that another process maps train the same model as those that were prepared here."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import trainwright as tw
from golden.golden_runs import CONTRACTS, write_data
from trainwright.data.mapped_values import open_values, write_values
from trainwright.run.mapped_rows import open_rows, write_rows
from trainwright.run.prepared_data import PreparedData
from trainwright.run.request import Request
from trainwright.run.screen import StreamScreen

pytestmark = pytest.mark.torch

FORECAST = """\
data: {kind: series, path: series.csv, target: sales, time: day, horizon: 7}
model: {kind: boosting, max_trees: 10}
"""
CHATS = """\
task: generation
data: {kind: chats, path: chats.jsonl, vocabulary: bpe, vocabulary_size: 300}
model: {kind: gpt, context: 32, width: 16, layers: 1, heads: 2}
training: {num_epochs: 1, batch_size: 4}
"""
KINDS = (
    "boosting",
    "mlp",
    "linear_text",
    "encoder",
    "resnet",
    "dual_encoder",
    "vision_language",
    "bi_encoder",
    "gpt",
    "gpt_word_pieces",
    "folds",
    "files",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mapped")
    write_data(folder)
    days = pl.date_range(pl.date(2024, 1, 1), pl.date(2024, 12, 30), "1d", eager=True)
    sales = 20 + 5 * np.sin(np.arange(len(days)) * 2 * np.pi / 7)
    pl.DataFrame({"day": days, "sales": sales + np.arange(len(days)) % 3}).write_csv(
        folder / "series.csv"
    )
    chats = [
        [
            {"role": "user", "content": f"what is {number} and one"},
            {"role": "assistant", "content": f"it is {number + 1}"},
        ]
        for number in range(60)
    ]
    lines = [json.dumps({"messages": messages}) for messages in chats]
    (folder / "chats.jsonl").write_text("\n".join(lines))
    contracts = {**{kind: CONTRACTS[kind] for kind in KINDS}, "series": FORECAST, "chats": CHATS}
    for name, text in contracts.items():
        (folder / f"{name}.yaml").write_text(text)
    return folder


@pytest.mark.parametrize("kind", [*KINDS, "series", "chats"])
def test_mapped_rows_train_the_same_model(kind: str, folder: Path, tmp_path: Path) -> None:
    contract = folder / f"{kind}.yaml"
    data = tw.prepare(contract)
    place = write_rows(data.ready, tmp_path / "rows")
    assert write_rows(data.ready, tmp_path / "rows") == place, "written once"
    mapped = open_rows(Request(contract), place)
    assert mapped.ready.prepared.version == data.ready.prepared.version
    here = tw.fit(data, runs=tmp_path, name="here", progress=False)
    there = tw.fit(mapped, runs=tmp_path, name="there", progress=False)
    assert there.score == here.score
    part, features = data.ready.prepared.validation, data.ready.prepared.features
    one, other = (
        fit.predictor.score(fit.predictor.inputs_of(part, features)) for fit in (here, there)
    )
    assert np.array_equal(one, other)


def test_mapped_rows_of_another_preparation_lie_elsewhere(folder: Path, tmp_path: Path) -> None:
    places = set()
    for settings in ((), ("split_seed=1",), ("data.features.numeric=standard",)):
        request = Request(folder / "boosting.yaml", settings)
        data = PreparedData.of(request, StreamScreen(io.StringIO()))
        places.add(write_rows(data.ready, tmp_path))
    assert len(places) == 3


def test_arrays_are_mapped_and_the_files_stay_as_they_are(tmp_path: Path) -> None:
    write_values({"rows": np.arange(5), 3: (float("inf"), {1, 2})}, tmp_path)
    found = open_values(tmp_path)
    assert isinstance(found["rows"], np.memmap)
    found["rows"][0] = 7
    assert open_values(tmp_path)["rows"].tolist() == [0, 1, 2, 3, 4]
    assert found[3] == (float("inf"), {1, 2})


def test_what_is_no_data_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="cannot be written as data"):
        write_values({"call": print}, tmp_path)


def test_nothing_but_own_classes_is_read(tmp_path: Path) -> None:
    (tmp_path / "values.json").write_text('{"class": "os:system", "content": {}}')
    with pytest.raises(ValueError, match="no class of this package"):
        open_values(tmp_path)
