"""Runs with folds of images: each image judged once by a model that did not see it, and resumed
exactly."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from command import command, inside, tree
from folded_runs import check_goes_on
from made_data import make_images
from made_pictures import encoded, picture, write_folder, write_table
from trainwright.contract.sections.data.data import fold_count
from trainwright.contract.sections.data.images import ImageData
from trainwright.core.errors import DataMistake
from trainwright.core.files import read_json
from trainwright.data.base.inputs import ImageInputs
from trainwright.data.images.prepare_images import prepare_image_fold, prepare_images, read_images

CONTRACT = """
data:
  kind: images
  path: pets
  validation: 0.2
  split: {folds: 3}
  decoding: {cache: cache}
  augment: {flip: true}
model: {kind: linear}
metric: {name: accuracy, target: 0.5, resamples: 100}
"""
NETWORK = CONTRACT.replace("{kind: linear}", "{kind: resnet, width: 8, blocks: [1]}") + (
    "training: {num_epochs: 3, batch_size: 10, early_stopping: off}\n"
)


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    write_folder(tmp_path / "pets", 90)
    (tmp_path / "small.yaml").write_text(CONTRACT)
    with inside(tmp_path):
        yield tmp_path


def section(**values: object) -> ImageData:
    given = {"kind": "images", "path": "pets", "split": {"folds": 3}, "validation": 0.2}
    return ImageData.model_validate(given | {"decoding": {"cache": "off"}} | values)


@pytest.mark.extended
def test_the_verdict_rests_on_the_images_of_all_folds(project: Path) -> None:
    assert project.is_dir()
    ran = command("train", "small.yaml", "--run", "one")
    assert ran.code in (0, 3), ran.err
    written = read_json(Path("runs/one/evaluation.json"))
    assert written["evaluation"]["rows"] == 90
    by_fold = written["by_fold"]["folds"]
    assert [one["test_rows"] for one in by_fold] == [30, 30, 30]
    pooled = np.mean([one["metrics"]["accuracy"] for one in by_fold])
    assert pooled == pytest.approx(written["evaluation"]["metrics"]["accuracy"]["value"])
    assert "folds     accuracy" in ran.err
    split = read_json(Path("runs/one/data/split.json"))
    assert split["folds"] == [{"train": 48, "validation": 12, "test": 30}] * 3
    assert split["duplicate_rows"] == 0
    findings = read_json(Path("runs/one/preflight.json"))
    assert not [one for one in findings if "cop" in one["message"]], findings
    assert command("runs", "verify", "one").code == 0
    assert command("predict", "one", "pets", "-o", "p.csv").code == 0
    assert command("check", "small.yaml").code == 0
    assert command("data", "check", "small.yaml").code == 0


def test_each_image_is_tested_once_and_nothing_is_fitted_on_it(project: Path) -> None:
    chosen = section()
    raw = read_images(chosen, project)
    whole = prepare_images(raw, chosen, 0)
    tested = []
    for number in range(3):
        fold = prepare_image_fold(raw, chosen, 0, number)
        rows = [set(part.rows.tolist()) for part in (fold.train, fold.validation, fold.test)]
        assert set.union(*rows) == set(range(90))
        assert sum(map(len, rows)) == 90
        tested += sorted(rows[2])
        # Poisoned test and validation images change nothing that is fitted.
        pixels = raw.images["train"].copied()
        pixels[[*rows[1], *rows[2]]] = 255
        poisoned = raw.__class__(
            {"train": ImageInputs.of(pixels)}, raw.labels, raw.names, raw.facts, rule=raw.rule
        )
        again = prepare_image_fold(poisoned, chosen, 0, number)
        assert again.features == fold.features
        assert again.version == fold.version
        assert fold.version != whole.version
    assert sorted(tested) == list(range(90))
    assert len(whole.test) == 90
    assert len(whole.train) + len(whole.validation) == 90
    other = section(split={"folds": 4})
    assert prepare_images(raw, other, 0).version != whole.version


def test_groups_stay_in_one_fold(tmp_path: Path) -> None:
    write_table(tmp_path / "pets", 60)
    chosen = section(path="pets/table.csv", fields={"group": "patient"})
    raw = read_images(chosen, tmp_path)
    whole = prepare_images(raw, chosen, 0)
    assert whole.split.groups_on_two_sides == 0
    for number in range(3):
        fold = prepare_image_fold(raw, chosen, 0, number)
        sides = [
            set(part.frame["group"].to_list()) for part in (fold.train, fold.validation, fold.test)
        ]
        assert all(sides)
        assert sum(map(len, sides)) == len(set.union(*sides)) == 15


def test_copies_that_cross_folds_are_counted(project: Path) -> None:
    for row in range(6):
        file = project / "pets" / ("bird", "cat", "dog")[row % 3] / f"copy-{row}.png"
        file.write_bytes(encoded(picture(row)))
    chosen = section()
    whole = prepare_images(read_images(chosen, project), chosen, 0)
    assert 0 < whole.split.duplicate_rows <= 2 * 6 * 2


def test_folds_leave_no_room_for_parts_that_stand_apart(project: Path) -> None:
    before = tree(project)
    ran = command("train", "small.yaml", "--set", "data.test_path=pets")
    assert ran.code == 2
    assert "data.split.folds: every image is tested once in its fold" in ran.err
    make_images(project / "idx")
    write_folder(project / "parts" / "train", 30)
    write_folder(project / "parts" / "test", 9)
    for path in ("idx", "parts"):
        more = {} if path == "idx" else {"decoding": {"cache": "off"}}
        chosen = ImageData.model_validate(
            {"kind": "images", "path": path, "split": {"folds": 3}} | more
        )
        with pytest.raises(DataMistake, match="so no part stands apart"):
            prepare_images(read_images(chosen, project), chosen, 0)
    assert before == {name: one for name, one in tree(project).items() if name in before}


def test_a_class_with_fewer_images_than_folds_is_named(project: Path) -> None:
    chosen = section(split={"folds": 40})
    with pytest.raises(DataMistake, match="fewer images than there are folds") as caught:
        prepare_images(read_images(chosen, project), chosen, 0)
    assert caught.value.problems[0].path == "data.split.folds"
    assert fold_count(chosen) == 40


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.row("F-07")
@pytest.mark.parametrize("step", [8, 40], ids=["in a fold", "in the run's own model"])
def test_a_stopped_run_goes_on_to_the_same_bits(project: Path, step: int) -> None:
    pytest.importorskip("torch")
    Path("small.yaml").write_text(NETWORK)
    assert command("train", "small.yaml", "--run", "whole").code in (0, 3)
    steps = len(Path("runs/whole/folds/01/signals.jsonl").read_text().splitlines())
    assert steps == 15
    stop = step if step < steps else 3 * steps + 5
    check_goes_on("small.yaml", stop)
