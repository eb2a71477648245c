from __future__ import annotations

from contextlib import closing
from pathlib import Path

import numpy as np
import polars as pl
import pytest

torch = pytest.importorskip("torch")

from trainwright.core.errors import DataMistake  # noqa: E402
from trainwright.data.loading.feed import Feed  # noqa: E402
from trainwright.data.loading.row_file import RowFile, parquet_batches, write_row_file  # noqa: E402
from trainwright.data.loading.worker_pool import Workers  # noqa: E402

pytestmark = pytest.mark.torch

ROWS = 5000
DRAW = np.random.default_rng(0)
FRAME = pl.DataFrame(
    {
        "a": DRAW.normal(size=ROWS).astype(np.float32),
        "b": DRAW.integers(0, 9, ROWS),
        "c": DRAW.integers(0, 5, ROWS),
        "y": DRAW.normal(size=ROWS).astype(np.float32),
    }
)
TENSORS = (["a", "b"], ["c"], "y")


def write(folder: Path, batch: int = 700) -> Path:
    file = folder / "rows.bin"
    assert write_row_file(FRAME.iter_slices(batch), TENSORS, file) == ROWS
    return file


def in_memory() -> list[torch.Tensor]:
    return [
        torch.from_numpy(FRAME.select("a", "b").cast(pl.Float32).to_numpy().copy()),
        torch.from_numpy(FRAME.select("c").to_numpy().astype(np.int64)),
        torch.from_numpy(FRAME["y"].to_numpy().copy()),
    ]


def test_a_feed_of_the_file_is_that_of_the_tensors(tmp_path: Path) -> None:
    feed, other = Feed(RowFile(write(tmp_path)), 64, seed=2), Feed(in_memory(), 64, seed=2)
    for _ in range(feed.steps_per_epoch + 3):
        for ours, theirs in zip(
            feed.next_step().micro_batches, other.next_step().micro_batches, strict=True
        ):
            for x, y in zip(ours, theirs, strict=True):
                assert x.dtype == y.dtype
                assert torch.equal(x, y)


def test_how_it_was_written_does_not_show(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    assert write(tmp_path).read_bytes() == write(tmp_path / "other", 4999).read_bytes()


@pytest.mark.parametrize("rows", [1, 333, 10_000])
def test_parquet_comes_in_its_order(rows: int, tmp_path: Path) -> None:
    files = [tmp_path / f"part-{at}.parquet" for at in range(3)]
    for at, file in enumerate(files):
        FRAME.slice(at * 400, 400).write_parquet(file, row_group_size=150)
    assert pl.concat(parquet_batches(files, rows)).equals(FRAME.head(1200))


def test_workers_read_it_too(tmp_path: Path) -> None:
    file = write(tmp_path)
    with closing(Feed(Workers(RowFile(file), 2), 64, seed=2)) as feed:
        other = Feed(RowFile(file), 64, seed=2)
        for _ in range(100):
            ours, theirs = feed.next_step(), other.next_step()
            assert torch.equal(ours.micro_batches[0][0], theirs.micro_batches[0][0])


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (FRAME.drop("c"), "no column 'c' of numbers"),
        (FRAME.with_columns(c=pl.lit("x")), "no column 'c' of numbers"),
        (
            FRAME.with_columns(y=pl.when(pl.int_range(pl.len()) == 1500).then(None).otherwise("y")),
            "'y' has missing values(.|\n)*row 1,500",
        ),
        (FRAME.head(0), "no rows"),
    ],
)
def test_what_cannot_be_written_is_named_and_leaves_nothing(
    frame: pl.DataFrame, message: str, tmp_path: Path
) -> None:
    with pytest.raises(DataMistake, match=message):
        write_row_file(frame.iter_slices(1000), TENSORS, tmp_path / "rows.bin")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("later", "message"),
    [
        (pl.DataFrame({"a": [0.7]}), "changes from row 2 on(.|\n)*'a' Float64(.|\n)*integers"),
        (pl.DataFrame({"b": [1]}), "no column 'a' of numbers from row 2 on"),
    ],
)
def test_a_later_batch_of_another_shape_is_refused(
    later: pl.DataFrame, message: str, tmp_path: Path
) -> None:
    with pytest.raises(DataMistake, match=message):
        write_row_file([pl.DataFrame({"a": [1, 2]}), later], ["a"], tmp_path / "rows.bin")
    assert not list(tmp_path.iterdir())


def cut_off(data: bytes) -> bytes:
    return data[:-1]


def without_rows(data: bytes) -> bytes:
    return data[:4096]


def of_another_kind(data: bytes) -> bytes:
    return b"P" + data[1:]


def with_a_torn_head(data: bytes) -> bytes:
    return data[:19] + b"{" + data[20:]


@pytest.mark.parametrize("damage", [cut_off, without_rows, of_another_kind, with_a_torn_head])
def test_a_file_that_is_not_whole_is_refused(damage, tmp_path: Path) -> None:
    file = write(tmp_path)
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(DataMistake, match="not a whole row file"):
        RowFile(file)
