"""Plans of a small contract for a table that is only spoken of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from trainwright.contract.reading.read_contract import Document, read_contract
from trainwright.core.errors import ContractMistake, Problem
from trainwright.data.columns.column_kinds import ColumnType
from trainwright.data.columns.target_column import TargetFacts
from trainwright.data.read_table import DataFacts
from trainwright.data.sources.source_file import FileVersion
from trainwright.model.input_shape import TableShape
from trainwright.planner.plan import Plan, plan
from trainwright.planner.plan_facts import DeviceFacts

CPU = DeviceFacts()
GPU = DeviceFacts("cuda", "GPU", has_bf16=True, memory_bytes=2**34)
OLD_GPU = DeviceFacts("cuda", "old GPU", has_bf16=False, memory_bytes=2**34)

COLUMNS = (
    ColumnType("age", "numeric", "", missing=3, distinct=70, example="39"),
    ColumnType("job", "categorical", "", missing=0, distinct=9, example="Sales"),
    ColumnType("day", "datetime", "", missing=0, distinct=90, example="2024-01-01", format="%Y"),
    ColumnType("id", "ignored", "", missing=0, distinct=1000, example="7"),
)


def facts(
    rows: int = 20_000,
    classes: Mapping[str, int] | None = None,
    given: Mapping[str, int] | None = None,
    sha256: str = "0" * 64,
) -> DataFacts:
    """A table with a target of classes; of numbers if `classes` is empty."""
    if classes is None:
        classes = {"no": rows - rows // 4, "yes": rows // 4}
    target = TargetFacts("classes" if classes else "numbers", classes, len(classes) or 500, 0)
    parts = {"train": rows, **(given or {})}
    file = FileVersion("rows.csv", sha256, 1000, rows)
    return DataFacts(sum(parts.values()), COLUMNS, target, (file,), frozenset(given or ()), parts)


def several(count: int) -> dict[str, int]:
    return {f"c{at:02d}": 300 for at in range(count)}


def document(folder: Path, *overrides: str) -> Document:
    path = folder / "c.yaml"
    path.write_text("data: {path: rows.csv, target: y}\nmodel: {kind: mlp}\n")
    return read_contract(path, overrides)


def planned(
    folder: Path, *overrides: str, data: DataFacts | None = None, device: DeviceFacts = CPU
) -> Plan:
    made = plan(document(folder, *overrides), facts() if data is None else data, device)
    return made.with_shape(TableShape(4, (9,), 2), device)


def problems(folder: Path, *overrides: str, data: DataFacts | None = None) -> Sequence[Problem]:
    with pytest.raises(ContractMistake) as caught:
        planned(folder, *overrides, data=data)
    assert all(problem.fix and str(problem.place) for problem in caught.value.problems)
    return caught.value.problems
