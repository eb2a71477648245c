"""The benchmark of the time to a verdict: its sides, and its table."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import verdict_time
from verdict_time import Found, Took, Trees, run_process, table


def _found(**changed: object) -> Found:
    sides = {
        "script": [Took(4.0, 5.0), Took(5.0, 5.0), Took(4.0, 6.0)],
        "first": [Took(5.0, 6.0), Took(6.0, 6.0), Took(6.0, 6.0)],
        "again": [Took(6.0, 6.0), Took(6.0, 6.0), Took(6.0, 6.0)],
        "small": [Took(2.0, 3.0), Took(2.0, 3.5), Took(2.0, 9.0)],
    }
    return Found(**{"sides": sides, **changed})  # type: ignore[arg-type]


def test_a_ratio_is_the_median_of_those_of_the_rounds() -> None:
    assert _found().ratio("first") == 1.25
    assert _found().ratio("again") == 1.5


def test_every_goal_is_judged() -> None:
    shown = table(_found())
    assert (
        "| income, seen for the first time | 5.0 to 6.0 | 6.0 to 6.0 | 1.25 | at most 1.5 |"
        in shown
    )
    assert "| 1.50 | at most 1.2, missed |" in shown
    assert "| 200 rows | 2.0 to 2.0 | 3.0 to 3.5 | 0.50 | at most 5 CPU seconds |" in shown
    assert "busy" not in shown
    shown = table(_found(quiet=[Trees(1.0, 1.5)], busy=[Trees(5.0, 3.0)], checked=[0.25]))
    assert "3.3 times one thread's quiet time (goal: at most 3, missed)" in shown
    assert "25% of their training (goal: at most 20%, missed)" in shown


def test_a_process_that_fails_shows_what_it_said(tmp_path: Path) -> None:
    took = run_process((sys.executable, "-c", "raise SystemExit(3)"), tmp_path, tmp_path)
    assert took.cpu_seconds > 0
    with pytest.raises(RuntimeError, match="no such thing"):
        run_process((sys.executable, "-c", "raise OSError('no such thing')"), tmp_path, tmp_path)


def test_the_small_table_is_some_rows_of_the_example(tmp_path: Path) -> None:
    verdict_time.write_example(tmp_path)
    assert len((tmp_path / "small.csv").read_text().splitlines()) == verdict_time.SMALL + 1
    assert (tmp_path / "adult_test.csv.gz").is_file()
