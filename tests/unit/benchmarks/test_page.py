"""Each benchmark writes its own section of the page and leaves the others alone."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

import page

HEAD = "# Benchmarks\n\nWhat is measured, and how.\n"


def test_a_new_section_comes_last() -> None:
    text = page.with_section(page.with_section(HEAD, "loop", "one"), "fashion", "two")
    assert text.startswith(HEAD)
    assert text.index("one") < text.index("two")


def test_writing_a_section_again_changes_nothing_else() -> None:
    text = HEAD
    for name in ("loop", "boosting", "fashion"):
        text = page.with_section(text, name, f"the numbers of {name}")
    again = page.with_section(text, "boosting", "other numbers")
    assert again == text.replace("the numbers of boosting", "other numbers")
    assert page.with_section(again, "boosting", "the numbers of boosting") == text


def test_a_section_named_like_the_begin_of_another_is_its_own() -> None:
    text = page.with_section(page.with_section(HEAD, "loop_cuda", "on a GPU"), "loop", "here")
    assert page.with_section(text, "loop", "there") == text.replace("here", "there")


@pytest.mark.parametrize("name", ["", "Loop", "-->", "end of loop"])
def test_a_name_that_no_comment_can_hold_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="no name of a section"):
        page.with_section(HEAD, name, "text")


@pytest.mark.parametrize(
    "broken",
    [
        "<!-- loop -->",
        "<!-- end of loop -->",
        "<!-- end of loop --> <!-- loop -->",
        "<!-- loop --> <!-- loop --> <!-- end of loop -->",
    ],
)
def test_a_page_whose_comments_do_not_match_is_not_written_over(broken: str) -> None:
    with pytest.raises(ValueError, match="no one section"):
        page.with_section(HEAD + broken, "loop", "text")


def test_a_written_section_says_how_when_and_with_what_it_was_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "benchmarks.md"
    target.write_text(HEAD, encoding="utf-8")
    argv = ["/somewhere/benchmarks/loop.py", "--data", "/of/mine", "--rounds", "4"]
    monkeypatch.setattr(sys, "argv", argv)
    page.write_section("loop", "The loop", "A table.", ["numpy", "not-installed"], ["H9"], target)
    text = target.read_text(encoding="utf-8")
    made = "`python benchmarks/loop.py --data PATH --rounds 4`"
    assert f"## The loop\n\n{made}\n\nA table.\n\nMeasured on " in text
    found = re.search(r"^Measured on \d{4}-\d\d-\d\d: .+, \d+ cores, H9; (.*)\.$", text, re.M)
    assert found is not None
    assert re.fullmatch(r"Python 3[\d.]+, numpy 2[\d.]+, not-installed missing", found[1])


def test_each_section_of_the_page_names_the_script_that_writes_it() -> None:
    text = page.PAGE.read_text(encoding="utf-8")
    found = re.findall(r"^<!-- (?!end of )\w+ -->\n\n## .+\n\n(.*)$", text, re.M)
    assert len(found) == len(re.findall(r"^## ", text, re.M))
    for line in found:
        script = re.match(r"`python benchmarks/(\w+)\.py( .*)? --write( .*)?`$", line)
        assert script is not None, line
        assert '"--write"' in (page.PAGE.parents[1] / "benchmarks" / f"{script[1]}.py").read_text()


def test_a_missed_goal_says_so() -> None:
    assert page.goal("at most 2", True) == "at most 2"
    assert page.goal("at most 2", False) == "at most 2, missed"


def test_the_page_of_this_project_can_be_written() -> None:
    text = page.PAGE.read_text(encoding="utf-8")
    for name in re.findall(r"^<!-- (?!end of )(\w+) -->$", text, re.M):
        assert page.with_section(text, name, "x") != text
