"""Uses of rows in files that would need all of them in memory."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.contract.document import Contract
from trainwright.contract.key_paths import as_key
from trainwright.contract.sections.data.data import fold_count
from trainwright.contract.sections.data.table_data import TableData
from trainwright.contract.sections.model import kinds_with
from trainwright.contract.sections.model.traits import Traits
from trainwright.core.errors import Problem
from trainwright.data.quality.row_faults import is_by_row
from trainwright.data.read_table import DataFacts

_IN_MEMORY = "data.reading.rows_in: memory, on a machine that has as much"


def problems_with_rows(contract: Contract, data: TableData, facts: DataFacts) -> Iterator[Problem]:
    """All problems with their paths, without places, for a resolved contract."""
    if not data.is_in_files:
        return
    why = facts.placing.reason
    model = contract.model
    if not model.traits.reads_files:
        libraries = kinds_with(lambda traits: _streams(traits) and traits.trained_by == "library")
        first, *others = kinds_with(_streams)
        yield Problem(
            f"a {model.kind} model needs all rows in memory, and they lie in files",
            path="model.kind",
            found=f"{model.kind}; {why}",
            expected=f"a network or {' or '.join(libraries)}, which read them a slice at a time",
            fix=f"model: {{kind: {first}}}, {' or '.join(others)}, or {_IN_MEMORY}",
        )
    yield from (
        Problem(
            f"{what} needs all rows in memory, and they lie in files",
            path=path,
            found=why,
            fix=f"{fix}, or {_IN_MEMORY}",
        )
        for path, what, fix in _needs(data, facts)
    )


def _streams(traits: Traits) -> bool:
    return "table" in traits.reads and traits.reads_files


def _needs(data: TableData, facts: DataFacts) -> Iterator[tuple[str, str, str]]:
    """Contract path, its value, and what to write instead."""
    features = data.features
    if fold_count(data):
        yield "data.split.folds", "training once a fold", "remove folds"
    for kind, action in data.quality.asked().items():
        if not is_by_row(kind, action):
            path = f"data.quality.actions.{kind}"
            yield path, f"to {action} what the check of {kind} finds", "report it"
    if data.query:
        yield "data.query", "ranking the rows of a query", "take a sample of queries"
    if features.history != "off":
        yield "data.features.history", "the past of a row", "compute it into columns beforehand"
    encoded = {"data.features.categorical": str(features.categorical)}
    for name, column in data.columns.items():
        encoded[f"data.columns.{as_key(name)}.features.categorical"] = column.features.categorical
    for path, encoding in encoded.items():
        if encoding in ("target", "both", "by_count"):
            yield path, "a category as its mean target", "write codes"
    for typed in facts.columns:
        if typed.kind == "text":
            yield f"data.columns.{as_key(typed.name)}.kind", "a text as its terms", "write ignored"


def several_target_problems(contract: Contract, kind: str) -> Iterator[Problem]:
    """Several targets that are not what the task predicts."""
    if kind == "classes":
        yield Problem(
            "the targets are neither all numbers nor all labels",
            path="data.target",
            found="a column of words",
            expected="columns of numbers, or columns of 1 and 0, true and false, yes and no",
            fix="name one column in data.target, or columns of one kind",
        )
    elif kind == "numbers" and contract.task == "multilabel":
        yield Problem(
            "the targets are numbers, but the task is multilabel",
            path="task",
            found="other values than 1 and 0, true and false, yes and no",
            expected="columns that say of each label whether a row has it",
            fix="write task: regression",
        )
