"""The page of selections shows its example, names every candidate, and the example trains."""

from __future__ import annotations

from pathlib import Path

import pytest

import trainwright as tw
from command import command
from guide import GUIDE, blocks
from trainwright.contract.sections.model.selection import CANDIDATES, DUMMY_CANDIDATE
from trainwright.core.files import read_json

PAGE = GUIDE / "selection.md"
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "selection" / "contract.yaml"


def test_the_page_shows_the_example() -> None:
    assert EXAMPLE.read_text(encoding="utf-8") in blocks(PAGE, "yaml")


def test_the_page_lists_the_candidates_in_their_order() -> None:
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    rows = [line.split("|")[1] for line in lines if line.startswith("| `")]
    assert [name for row in rows for name in row.split("`")[1::2]] == [DUMMY_CANDIDATE, *CANDIDATES]


@pytest.mark.extended
@pytest.mark.torch
def test_the_example_trains_within_its_budget_and_predicts(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    few = "model.candidates=[dummy, linear, boosting, mlp]"
    settings = ("--set", few, "--set", "model.bagging=2", "--set", "training.num_epochs=2")
    ran = command("train", str(EXAMPLE), "--runs", str(tmp_path), "--run", "one", *settings)
    assert ran.code in (0, 3), ran.err
    assert "left" in ran.err
    ladder = read_json(tmp_path / "one" / "ladder.json")
    assert [rung["name"] for rung in ladder["rungs"]][-1] == "ensemble"
    assert not any(rung["skipped"] for rung in ladder["rungs"])
    rows = {"hours": [1.0, 9.0], "income": [3000, None], "region": ["north", "nowhere"]}
    answer = tw.load(tmp_path / "one").predict(rows)
    assert answer["probability_yes"].is_between(0, 1).all()
