"""Commands that a fix names: typed, they do what was refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from advised import commands, resuming
from advised.commands import Refused, check_refused, make_project
from faults.tiers import each


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_project(tmp_path_factory.mktemp("project"))


CASES = [*(pytest.param(one) for one in commands.CASES), *each(2, resuming.CASES)]


@pytest.mark.extended
@pytest.mark.parametrize("one", CASES, ids=str)
def test_the_command_of_a_fix_works(made: Path, tmp_path: Path, one: Refused) -> None:
    check_refused(one, made, tmp_path)
