"""Advice that works: what a fix says to write is written, and the problem is gone."""

from __future__ import annotations

from pathlib import Path

import pytest

from advised import findings, preflights
from advised.cases import Case, check_advice, write_bases
from advised.findings import Found, check_finding
from advised.preflights import check_warning
from advised.tables import TABLES

CASES = tuple(case for table in TABLES for case in table.CASES)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_bases(tmp_path_factory.mktemp("advised"))


@pytest.mark.extended
@pytest.mark.parametrize("case", CASES, ids=str)
def test_what_a_fix_says_mends_the_problem(shared: Path, tmp_path: Path, case: Case) -> None:
    check_advice(case, shared, tmp_path)


@pytest.mark.extended
@pytest.mark.parametrize("one", findings.CASES, ids=str)
def test_what_a_finding_says_is_done_about_it(shared: Path, tmp_path: Path, one: Found) -> None:
    check_finding(one, shared, tmp_path)


@pytest.mark.extended
@pytest.mark.parametrize("case", preflights.CASES, ids=str)
def test_what_a_warning_says_is_done_about_it(shared: Path, tmp_path: Path, case: Case) -> None:
    check_warning(case, shared, tmp_path)
