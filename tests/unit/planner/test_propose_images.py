"""The first contract for images."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from trainwright.contract.reading.read_contract import read_contract
from trainwright.core.errors import DataMistake
from trainwright.planner.init.first_contract import propose_contract


def write_animals(folder: Path, **counts: int) -> None:
    for label, count in counts.items():
        (folder / "animals" / label).mkdir(parents=True)
        for number in range(count):
            Image.new("L", (8, 8), 40 * number).save(folder / "animals" / label / f"{number}.png")


def test_a_slice_without_a_demand_judges_nothing(tmp_path: Path) -> None:
    write_animals(tmp_path, cat=3, dog=3)
    text = propose_contract(str(tmp_path / "animals"), "", tmp_path)
    (tmp_path / "made.yaml").write_text(text)
    contract = read_contract(tmp_path / "made.yaml").contract
    assert [(one.column, one.floor) for one in contract.slices] == [("label", "none")]


def test_one_image_is_no_images(tmp_path: Path) -> None:
    write_animals(tmp_path, cat=1, dog=3)
    (tmp_path / "animals" / "dog" / "torn.png").write_bytes(b"no image")
    text = propose_contract(str(tmp_path / "animals"), "", tmp_path)
    assert "the rarest has 1 image\n" in text
    assert "1 image cannot be read" in text


def test_images_without_class_folders_are_told_what_is_expected(tmp_path: Path) -> None:
    (tmp_path / "animals").mkdir()
    for number in range(3):
        Image.new("L", (8, 8)).save(tmp_path / "animals" / f"{number}.png")
    with pytest.raises(DataMistake) as caught:
        propose_contract(str(tmp_path / "animals"), "", tmp_path)
    (problem,) = caught.value.problems
    assert problem.found == "3 files .png"
    assert "a folder of images for each class" in problem.expected
    assert "cat/1.png" in problem.fix
