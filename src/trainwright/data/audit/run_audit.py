"""Run the leakage audit, also of each of several targets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import polars as pl

from trainwright.contract.sections.data.split import RandomSplit, StratifiedSplit
from trainwright.contract.sections.data.table_data import TableData
from trainwright.data.audit.audit_result import AuditResult, Sides, Test, Verdict
from trainwright.data.audit.feature_leaks import (
    different_rows,
    function_of_the_target,
    tells_the_target,
)
from trainwright.data.audit.interpolated_rows import interpolated_rows
from trainwright.data.audit.row_overlap import near_rows, near_texts, same_rows
from trainwright.data.audit.split_leaks import future_rows, later_times, same_groups
from trainwright.data.columns.target import Target
from trainwright.data.quality.finding import Subset
from trainwright.data.statistics.row_structure import RowStructure, find_structures
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
_VERDICTS: tuple[Verdict, ...] = ("clean", "suspicious", "leak")


def audit(
    prepared: Prepared, section: TableData, subset: Subset = "all"
) -> tuple[AuditResult, ...]:
    """Run every test on prepared rows; each gives at least one result. Only tables have tests
    here."""
    return tuple(_run_tests(_tests_of(subset), _sides(prepared, section), prepared, section))


def audit_sampled(
    prepared: Prepared, some: Prepared, section: TableData, subset: Subset = "all"
) -> tuple[AuditResult, ...]:
    """The audit on `some` of the rows, except for tests that a sample would mostly miss."""
    if subset == "by_models":
        return audit(some, section, subset)
    of_all = _sides(prepared, section)
    of_some = _sides(some, section, of_all.structures)
    results: list[AuditResult] = []
    for test in _tests_of(subset):
        sides, rows = (of_all, prepared) if test in _OF_ALL_ROWS else (of_some, some)
        results += _run_tests((test,), sides, rows, section)
    return tuple(results)


def audit_folds(folds: Iterable[Prepared], section: TableData) -> tuple[AuditResult, ...]:
    """Audit folds prepared one at a time. Tests of the split report the fold with the worst result.
    Feature tests run on the first fold, whose training rows are nearly those of the others."""
    found: list[list[AuditResult]] = []
    for fold in folds:
        tests = _OF_THE_SPLIT if found else (*_OF_THE_SPLIT, *_OF_THE_COLUMNS)
        found.append(_run_tests(tests, _sides(fold, section), fold, section))
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


def _run_tests(
    tests: Sequence[_Test], sides: Sides, prepared: Prepared, section: TableData
) -> list[AuditResult]:
    quick = section.quality.look == "quick"
    chosen = [test for test in tests if not (quick and test is near_texts)]
    if not prepared.target.target_names:
        return [result for test in chosen for result in test(sides)]
    each = sides_of_targets(sides, prepared)
    return [
        result
        for test in chosen
        for result in (audit_each(test, each) if test in _OF_THE_COLUMNS else test(sides))
    ]


def _sides(
    prepared: Prepared, section: TableData, structures: tuple[RowStructure, ...] | None = None
) -> Sides:
    """The sides of the split; without `structures`, those of its rows are found."""
    parts = (prepared.validation, prepared.test)
    there = set.intersection(*(set(part.frame.columns) for part in parts))
    names = [name for name in prepared.train.frame.columns if name in there - {section.weight}]
    train = prepared.train.frame.select(names)
    held_out = pl.concat([part.frame.select(names) for part in parts])
    places = np.concatenate([part.rows for part in parts])
    target, given = section.target_columns[0], bool(section.val_path and section.test_path)
    if structures is None:
        in_file_order = train
        if not (section.val_path or section.test_path):
            order = np.argsort(np.concatenate([prepared.train.rows, places]), kind="stable")
            in_file_order = pl.concat([train, held_out])[order]
        structures = tuple(find_structures(in_file_order, target))
    return Sides(
        train=train,
        held_out=held_out,
        places=places,
        columns=prepared.table.columns,
        target=target,
        split=section.split,
        given=given,
        drawn=are_parts_drawn(section),
        structures=structures,
    )


def are_parts_drawn(section: TableData) -> bool:
    """Are all parts of the split drawn at random from the same rows?"""
    comes_in_files = section.val_path or section.test_path
    return isinstance(section.split, RandomSplit | StratifiedSplit) and not comes_in_files


def sides_of_targets(sides: Sides, prepared: Prepared) -> Mapping[str, Sides]:
    """Both sides of a split for each target, by its name: a column of numbers, or of labels with
    the classes 0 and 1."""
    target = prepared.target
    held_out = np.concatenate([prepared.validation.target, prepared.test.target])
    found = {}
    for at, name in enumerate(target.target_names):
        column = f"{target.column} = {name}" if target.target_columns == (target.column,) else name
        found[name] = replace(
            sides,
            train=_with_target(sides.train, target, column, prepared.train.target[:, at]),
            held_out=_with_target(sides.held_out, target, column, held_out[:, at]),
            target=column,
        )
    return found


def _with_target(
    frame: pl.DataFrame, target: Target, name: str, values: npt.NDArray[np.float64 | np.int64]
) -> pl.DataFrame:
    series = pl.Series(name, values)
    return frame.with_columns(series.cast(pl.String) if target.task == "multilabel" else series)


def audit_each(
    test: Callable[[Sides], list[AuditResult]], each: Mapping[str, Sides]
) -> list[AuditResult]:
    """What a test finds for each target, with its name; of a test that finds nothing, the target
    that came nearest to a finding."""
    found = [
        replace(result, message=f"target {name!r}: {result.message}")
        for name, sides in each.items()
        for result in test(sides)
    ]
    bad = [one for one in found if one.verdict != "clean"]
    return bad or [max(found, key=lambda one: one.number)]
