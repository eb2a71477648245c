"""Regular expressions of a contract take time linear in the text: the engine that matches them goes
through it once, so it knows neither look-around nor back-references, and it bounds their size."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

from command import command, project_in, tree
from trainwright.core.errors import ContractMistake
from trainwright.data.quality.columns.implausible_values import whole_matches


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    yield from project_in(tmp_path)


@pytest.mark.row("F-63")
def test_a_pattern_is_matched_with_the_whole_word() -> None:
    words = pl.Series(["aab", "aab!", None, "a\n"])
    found = whole_matches(words, "a+b*", "data.columns.x.pattern")
    assert found.to_list() == [True, False, None, False]


@pytest.mark.row("F-63")
@pytest.mark.parametrize(
    "pattern", ["(?!x)a", r"(a)\1", r"\w{1,500}"], ids=["look", "back", "large"]
)
def test_a_pattern_that_the_engine_does_not_know_is_refused(pattern: str) -> None:
    with pytest.raises(ContractMistake) as raised:
        whole_matches(pl.Series(["a"]), pattern, "data.columns.x.pattern")
    (problem,) = raised.value.problems
    assert problem.path == "data.columns.x.pattern"
    assert problem.fix


@pytest.mark.row("F-63")
@pytest.mark.parametrize("verb", ["check", "train"])
def test_the_command_line_refuses_it_and_writes_nothing(project: Path, verb: str) -> None:
    (table,) = project.glob("*.csv")
    (column, *_) = table.read_text().splitlines()[0].split(",")
    before = tree(project)
    ran = command(verb, "small.yaml", "--set", f"data.columns.{column}.pattern=(?!x).*")
    assert ran.code == 2
    assert "look-ahead" in ran.err
    assert f"data.columns.{column}.pattern" in ran.err
    assert tree(project) == before
