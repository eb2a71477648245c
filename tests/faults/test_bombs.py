"""Small files that claim, or unpack to, more than a machine has: refused with one message, in
little memory and time; files that are packed as far but honest are read."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, final

import numpy as np
import polars as pl
import pytest

import bomb_child
from bombs import BOMBS, contract_of
from command import tree
from faults.tiers import only

_GIBIBYTE = 2**30
_MOST_BYTES, _MOST_SECONDS = 2 * _GIBIBYTE, 60
_SAYS = {
    "csv_columns": "more columns than is allowed",
    "csv_equal_names": "more columns than is allowed",
    "csv_commas": "the line does not end",
    "json_objects": "values are nested",
    "parquet_columns": "more columns than is allowed",
    "tar_sample": "too large together",
    "tar_name": "a header of 262,144,000 bytes",
    "idx": "impossible sizes",
    "tfrecord_features": "more than 20,000 features",
    "png_pixels": "more pixels than allowed",
    "png_text": "Decompressed data too large",
    "webp_canvas": "more pixels than allowed",
    "tiff_directories": "a sequence of images",
    "jpeg_scans": "more scans than any encoder writes",
    "image_size": "more pixels than is allowed",
    "tokenizer_growth": "larger than any that is used",
    "tokenizer_words": "does not come to an end",
    "tokenizer_size": "too many tokens",
    "sqlite_time": "does not come to an end",
}
_QUICK = (
    *_SAYS,
    *("csv_gzip", "json_keys", "parquet_page", "arrow_packed", "tar_member", "tfrecord_gzip"),
    "sqlite_rows",
)
"""One of each guard and of each format."""
_NEEDS = {"parquet": "pyarrow", "arrow": "pyarrow", "tokenizer": "tokenizers"}
_NEEDS |= {"sqlite": "adbc_driver_sqlite"}


@final
class Child:
    """`bomb_child` as a process; a new one where the last one died or left a thread behind."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def check(self, folder: Path) -> dict[str, Any]:
        """The answer to a folder."""
        process = self._process = self._process or self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        print(folder, file=process.stdin, flush=True)
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            line = process.stdout.readline() if selector.select(2 * _MOST_SECONDS) else ""
        answer: dict[str, Any] = json.loads(line) if line else {"alone": False}
        if not answer["alone"]:
            self.close()
        assert line, f"the process died or hung ({process.returncode})"
        return answer

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def _start(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, bomb_child.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )


@pytest.fixture(scope="module")
def child() -> Iterator[Child]:
    started = Child()
    yield started
    started.close()


@pytest.mark.extended
@pytest.mark.row("F-63")
@pytest.mark.parametrize("name", only(_QUICK, BOMBS))
def test_a_bomb_is_refused_in_little_memory_and_time(
    name: str, tmp_path: Path, child: Child, figure: Callable[..., None]
) -> None:
    for part, package in _NEEDS.items():
        if name.startswith(part):
            pytest.importorskip(package)
    (tmp_path / "contract.yaml").write_text(contract_of(BOMBS[name](tmp_path)))
    before = tree(tmp_path) if name != "tar_sample" else {}
    answer = child.check(tmp_path)
    assert answer["code"] == 2, answer
    assert _SAYS.get(name, "unpacks to far more than its size") in answer["err"]
    assert "fix: " in answer["err"]
    assert "found: " in answer["err"]
    assert answer["bytes"] < _MOST_BYTES
    assert answer["seconds"] < _MOST_SECONDS
    assert not before or tree(tmp_path) == before
    figure(bombs=1, most_megabytes=answer["bytes"] // 10**6)


ROWS = 1_000_000


def _table() -> pl.DataFrame:
    """Rows of which most columns hold one value."""
    return pl.DataFrame(
        {
            "a": np.arange(ROWS) % 97,
            **{f"c{i}": np.zeros(ROWS, np.int64) for i in range(8)},
            "country": pl.repeat("United Kingdom of Great Britain", ROWS, eager=True),
            "y": np.arange(ROWS) % 2,
        }
    )


@pytest.mark.row("F-63")
@pytest.mark.parametrize("kind", ["parquet", "arrow", "csv.gz", "csv.zst"])
def test_an_honest_file_that_packs_well_is_read(kind: str, tmp_path: Path) -> None:
    from trainwright.data.sources.find_source import read_source

    name, table = f"a.{kind}", _table() if "csv" not in kind else _table().head(ROWS // 10)
    match kind:
        case "parquet":
            table.write_parquet(tmp_path / name, compression="zstd")
        case "arrow":
            table.write_ipc(tmp_path / name, compression="zstd")
        case "csv.gz":
            import gzip

            (tmp_path / name).write_bytes(gzip.compress(table.write_csv().encode()))
        case "csv.zst":
            import zstandard

            (tmp_path / name).write_bytes(zstandard.compress(table.write_csv().encode()))
    packed = (tmp_path / name).stat().st_size
    assert table.estimated_size() > 20 * packed
    assert read_source(name, tmp_path).frame.height == table.height


def test_a_wide_table_is_read_where_the_contract_says_so(tmp_path: Path) -> None:
    from trainwright.contract.sections.data.sources import Reading
    from trainwright.core.errors import DataMistake
    from trainwright.data.sources.find_source import read_source

    width = 20_001
    names = ",".join(f"c{i}" for i in range(width))
    rows = "\n".join(",".join("1" * width) for _ in range(2))
    (tmp_path / "a.csv").write_text(f"{names}\n{rows}\n")
    with pytest.raises(DataMistake, match=f"set data.reading.most_columns to {width}"):
        read_source("a.csv", tmp_path)
    reading = Reading(most_columns=width)
    assert read_source("a.csv", tmp_path, reading=reading).frame.shape == (2, width)
