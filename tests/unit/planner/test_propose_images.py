"""The first contract for images."""

from __future__ import annotations

from pathlib import Path

from PIL import Image

from trainwright.contract.reading import read_contract
from trainwright.planner.first import propose_contract


def test_a_slice_without_a_demand_judges_nothing(tmp_path: Path) -> None:
    for label in ("cat", "dog"):
        (tmp_path / "animals" / label).mkdir(parents=True)
        for number in range(3):
            Image.new("L", (8, 8), 40 * number).save(tmp_path / "animals" / label / f"{number}.png")
    text = propose_contract(str(tmp_path / "animals"), "", tmp_path)
    (tmp_path / "made.yaml").write_text(text)
    contract = read_contract(tmp_path / "made.yaml").contract
    assert [(one.column, one.floor) for one in contract.slices] == [("label", "none")]
