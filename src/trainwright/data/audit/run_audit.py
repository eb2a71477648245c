"""Run the leakage audit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np
import polars as pl

from trainwright.contract.sections.data.table_data import TableData
from trainwright.data.audit.adversarial import different_rows
from trainwright.data.audit.audit_result import AuditResult, Test, Verdict
from trainwright.data.audit.feature_leaks import function_of_the_target, tells_the_target
from trainwright.data.audit.group_leaks import same_groups
from trainwright.data.audit.interpolated_rows import interpolated_rows
from trainwright.data.audit.near_text_overlap import near_texts
from trainwright.data.audit.row_overlap import near_rows, same_rows
from trainwright.data.audit.split_sides import Sides
from trainwright.data.audit.time_leaks import future_rows, later_times
from trainwright.data.encoders.encoding import TypedColumns
from trainwright.data.quality.finding import Subset
from trainwright.data.types import Prepared

_Test = Callable[[Sides], list[AuditResult]]

_OF_THE_SPLIT: tuple[_Test, ...] = (
    same_rows,
    near_rows,
    interpolated_rows,
    near_texts,
    same_groups,
    future_rows,
    different_rows,
)
_OF_ALL_ROWS: tuple[_Test, ...] = (same_rows, interpolated_rows, same_groups, future_rows)
"""Cheap pairwise comparisons, which a sample would mostly miss."""
_OF_THE_COLUMNS: tuple[_Test, ...] = (tells_the_target, function_of_the_target, later_times)
_OF_A_TARGET = (*_OF_THE_COLUMNS, same_groups)
"""Tests that go by the target: of several, by each."""
_VERDICTS: tuple[Verdict, ...] = ("clean", "suspicious", "leak")


def audit(
    prepared: Prepared, section: TableData, subset: Subset = "all"
) -> tuple[AuditResult, ...]:
    """Run every test on prepared rows; each gives at least one result. Only tables have tests
    here."""
    return tuple(_looked_at(prepared, section, _tests_of(subset)))


def audit_sampled(
    prepared: Prepared, some: Prepared, section: TableData, subset: Subset = "all"
) -> tuple[AuditResult, ...]:
    """The audit on `some` of the rows, except for tests that a sample would mostly miss."""
    found = []
    for test in _tests_of(subset):
        looked_at = prepared if test in _OF_ALL_ROWS else some
        found += _looked_at(looked_at, section, (test,))
    return tuple(found)


def audit_folds(folds: Iterable[Prepared], section: TableData) -> tuple[AuditResult, ...]:
    """Audit folds prepared one at a time. Tests of the split report the fold with the worst result.
    Feature tests run on the first fold, whose training rows are nearly those of the others."""
    found: list[list[AuditResult]] = []
    for fold in folds:
        tests = _OF_THE_SPLIT if found else (*_OF_THE_SPLIT, *_OF_THE_COLUMNS)
        found.append(_looked_at(fold, section, tests))
    spoken: list[AuditResult] = []
    for test in dict.fromkeys(one.test for one in found[0]):
        number, worst = max(enumerate(found, 1), key=lambda pair: _severity(pair[1], test))
        spoken += [
            replace(one, message=f"fold {number} of {len(found)}: {one.message}")
            for one in worst
            if one.test == test
        ]
    return tuple(spoken)


def _tests_of(subset: Subset) -> list[_Test]:
    every = (*_OF_THE_SPLIT, *_OF_THE_COLUMNS)
    by_models = subset == "by_models"
    return [test for test in every if subset == "all" or (test is different_rows) == by_models]


def _severity(found: Sequence[AuditResult], test: Test) -> tuple[int, float]:
    """Sort key: worst verdict of a test, then its largest number; lowest without results."""
    results = [(_VERDICTS.index(one.verdict), one.number) for one in found if one.test == test]
    return max(results, default=(-1, 0.0))


def _looked_at(prepared: Prepared, section: TableData, tests: Sequence[_Test]) -> list[AuditResult]:
    sides = _sides(prepared, prepared.table, section)
    quick = section.quality.look == "quick"
    chosen = [test for test in tests if not (quick and test is near_texts)]
    if not prepared.target.target_names:
        return [result for test in chosen for result in test(sides)]
    # Imported here: few tables have several targets.
    from trainwright.data.audit.each_target import audit_each, sides_of_targets

    each = sides_of_targets(sides, prepared)
    return [
        result
        for test in chosen
        for result in (audit_each(test, each) if test in _OF_A_TARGET else test(sides))
    ]


def _sides(prepared: Prepared, features: TypedColumns, section: TableData) -> Sides:
    parts = (prepared.validation, prepared.test)
    there = set.intersection(*(set(part.frame.columns) for part in parts))
    names = [name for name in prepared.train.frame.columns if name in there - {section.weight}]
    return Sides(
        train=prepared.train.frame.select(names),
        held_out=pl.concat([part.frame.select(names) for part in parts]),
        train_places=prepared.train.rows,
        places=np.concatenate([part.rows for part in parts]),
        columns=features.columns,
        target=section.target_columns[0],
        split=section.split,
        given=bool(section.val_path and section.test_path),
    )
