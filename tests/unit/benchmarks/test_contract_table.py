"""A table that lies in files is trained on in memory that does not grow with its rows."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("pyarrow")

from batches.contract_table import ROW_BYTES, train

pytestmark = [pytest.mark.torch, pytest.mark.slow, pytest.mark.timeout(600)]

FEW, MANY = 250_000, 1_000_000


def test_memory_does_not_grow_with_the_rows(tmp_path: Path) -> None:
    few, many = (train(tmp_path / str(rows), rows) for rows in (FEW, MANY))
    growth = many.anonymous_bytes - few.anonymous_bytes
    # In memory it is ten times the numbers. Threads that wait for a busy machine hold up to half of
    # them longer, however many rows there are.
    assert growth < ROW_BYTES * (MANY - FEW), (few, many)
