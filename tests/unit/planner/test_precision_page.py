"""The page on precision says what the code does."""

from __future__ import annotations

from pathlib import Path

from guide import GUIDE, blocks
from trainwright.contract.reading.read_contract import read_contract
from trainwright.planner.compute_trials import MARGINS, MOST_ERROR, SAME_LOSS, SAME_NORM
from trainwright.planner.resolve.compute_choices import LONG_SECONDS, open_paths

PAGE = GUIDE / "precision.md"


def test_the_example_of_the_page_is_the_default(tmp_path: Path) -> None:
    (example,) = blocks(PAGE, "yaml")
    small = "data: {path: rows.csv, target: y}\nmodel: {kind: mlp}\n"
    (tmp_path / "written.yaml").write_text(small + example)
    (tmp_path / "bare.yaml").write_text(small)
    written, bare = (
        read_contract(tmp_path / name).contract.training for name in ("written.yaml", "bare.yaml")
    )
    assert written == bare
    assert len(open_paths(written)) == 4


def test_the_limits_of_the_page_are_those_of_the_code() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for replaced, margin in (("bf16 (CPU)", "bf16"), ("oneDNN's (CPU)", "onednn")):
        assert f"| {replaced} | {MARGINS[margin]:g} |" in page
    assert f"`contiguous` (CPU) | {MARGINS['contiguous']:g} |" in page
    assert f"first loss within {SAME_LOSS:.0%}, its gradient's norm within {SAME_NORM:.0%}" in page
    assert f"at most {MOST_ERROR:.0e}".replace("e-05", "e-5") in page
    assert f"at least {LONG_SECONDS / 60:g} minutes" in page
