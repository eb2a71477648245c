"""Commands that a fix names of a search or a tracker: typed, they do what was refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from advised.commands import Refused, check_refused
from advised.tuning import CASES, make_tuning


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tuning(tmp_path_factory.mktemp("tuning"))


@pytest.mark.extended
@pytest.mark.parametrize("one", CASES, ids=str)
def test_the_command_of_a_fix_works(made: Path, tmp_path: Path, one: Refused) -> None:
    check_refused(one, made, tmp_path)
