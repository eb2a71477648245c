"""Patterns of paths: what they match, and that no folder makes them run for ever."""

from __future__ import annotations

import glob
from pathlib import Path

import pytest

from trainwright.core.errors import DataMistake
from trainwright.data.sources import folders
from trainwright.data.sources import folders as path_patterns
from trainwright.data.sources.folders import paths_matching

FILES = (
    "a.csv",
    "b/a.csv",
    "b/c/a.csv",
    "b/c/d.csv",
    "b/.h/a.csv",
    ".a.csv",
    "b/[x].csv",
    "B/a.csv",
)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x,y\n1,2\n")
    return tmp_path


@pytest.mark.parametrize(
    "pattern",
    [
        *("*.csv", "**/*.csv", "b/*.csv", "b/**/a.csv", "b/*/*.csv", "[ab].csv", "?/a.csv"),
        *("**/c/*.csv", "*/c/d.csv", ".*.csv", "b/[[]x].csv", "**/**/*.csv", "none/*.csv", "*"),
        *("./b/*.csv", "b/../*.csv", "b/c/[!a].csv", "b/**", "**"),
    ],
)
def test_it_matches_what_glob_does(pattern: str, place: Path) -> None:
    found = glob.glob(pattern, root_dir=place, recursive=True)  # noqa: PTH207
    files = {Path(name) for name in found if (place / name).is_file()}
    assert {Path(name) for name in paths_matching(pattern, place)} == files


def test_an_absolute_pattern_stays_absolute(place: Path) -> None:
    assert paths_matching(f"{place}/b/*/a.csv", Path("/")) == [f"{place}/b/c/a.csv"]


def test_folders_that_lead_to_themselves_are_passed_once(place: Path) -> None:
    for name in ("one", "two"):
        (place / name).symlink_to(".")
    assert paths_matching("**/d.csv", place) == ["b/c/d.csv"]


def test_a_pattern_that_leads_through_too_much_is_refused(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(path_patterns, "MOST_PATTERN_ENTRIES", 50)
    for name in ("one", "two"):
        (place / name).symlink_to(".")
    with pytest.raises(DataMistake, match="too many files and folders") as refused:
        folders.parts_of_pattern("*/" * 20 + "*.csv", place, "data.path")
    assert refused.value.problems[0].path == "data.path"
