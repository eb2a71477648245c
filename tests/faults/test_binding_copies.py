"""Copies of images and texts on both sides of the split make a verdict invalid where it rests on
them: trained and judged from the command."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import yaml

from command import Ran, command, inside
from made_data import idx_bytes
from trainwright.core.files import read_json

pytestmark = pytest.mark.row("F-65")

IMAGES = """
name: copies
data: {kind: images, path: data, test: 0.3}
model: {kind: boosting, max_trees: 30, learning_rate: 0.3}
metric: {name: accuracy, target: 0.7, resamples: 100}
"""
TABLE = """
name: copies
data: {path: rows.csv, target: label, columns: {body: {kind: text}}, split: {kind: stratified}}
model: {kind: linear}
metric: {name: accuracy, target: 0.75, resamples: 100}
"""
TEXT = """
name: copies
data: {kind: tokens, path: text.txt, test: 0.2}
model: {kind: gpt, layers: 1, heads: 2, width: 16, context: 16}
training: {num_epochs: 1, batch_size: 16, early_stopping: off, optimizer: {learning_rate: 0.01}}
metric: {target: 20.0, resamples: 100}
"""
WORDS = np.array([f"{a}{b}{c}{d}a" for a in "bdfgkl" for b in "aeio" for c in "nrst" for d in "ui"])


@pytest.fixture(autouse=True)
def here(tmp_path: Path) -> Iterator[Path]:
    with inside(tmp_path):
        yield tmp_path


def trained(contract: str, *words: str) -> tuple[Ran, Any]:
    Path("contract.yaml").write_text(contract)
    ran = command("train", "contract.yaml", "--json", *words)
    assert ran.code in (0, 3), ran.err
    return ran, json.loads(ran.out)


def write_images(copied: int, *, brighter: bool = False) -> None:
    """Images of random squares with labels that hardly show, some of them two more times."""
    random = np.random.default_rng(0)
    images = random.integers(0, 30, (600, 12, 12))
    for image in images:
        for _ in range(4):
            top, left = random.integers(0, 9, 2)
            image[top : top + 4, left : left + 4] += random.integers(20, 50)
    light = images[:, :6].sum((1, 2))
    labels = np.where(random.random(600) < 0.7, light > np.median(light), light <= np.median(light))
    again = np.tile(np.arange(copied), 2)
    more = (images[again] * 0.97 + 3).round() if brighter else images[again]
    images = np.concatenate([images, more.astype(np.int64)])
    labels = np.concatenate([labels, labels[again]])
    order = random.permutation(len(images))
    folder = Path("data")
    folder.mkdir()
    (folder / "train-images-idx3-ubyte").write_bytes(idx_bytes(images[order]))
    (folder / "train-labels-idx1-ubyte").write_bytes(idx_bytes(labels[order]))


@pytest.mark.slow
def test_near_copies_of_images() -> None:
    write_images(300, brighter=True)
    ran, result = trained(IMAGES)
    assert (ran.code, result["verdict"]) == (3, "invalid")
    found = {one["finding"]: one["outcome"] for one in result["findings"]}
    assert found["near_duplicates"] == "changes_decision"


@pytest.mark.extended
def test_copies_of_images() -> None:
    write_images(300)
    ran, result = trained(IMAGES)
    assert (ran.code, result["verdict"]) == (3, "invalid")
    (found,) = result["findings"]
    assert (found["finding"], found["outcome"]) == ("exact_duplicates", "changes_decision")
    assert found["after"]["value"] < 0.7 < found["before"]["value"]
    assert found["difference"]["high"] < 0
    assert "remove the copies from the files" in found["message"]
    evaluation = read_json(Path("runs/copies-1/evaluation.json"))
    assert evaluation["verdict"]["findings"] == result["findings"]
    assert "Verdict: invalid" in Path("runs/copies-1/report.html").read_text()

    shown = command("evaluate", "copies-1")
    assert shown.code == 3
    assert shown.out.startswith("INVALID")
    assert "{finding: exact_duplicates, reason:" in shown.out

    accept = "[{finding: exact_duplicates, reason: they come again}]"
    ran, accepted = trained(IMAGES, "--set", f"data.audit.accept={accept}")
    assert (ran.code, accepted["verdict"]) == (0, "met")
    assert any("accepted: they come again" in line for line in accepted["warnings"])

    _, easy = trained(IMAGES, "--set", "metric.target=0.3")
    assert easy["verdict"] == "met"
    assert [one for one in easy["warnings"] if "the decision is the same" in one]


def test_images_without_copies() -> None:
    write_images(0)
    _, result = trained(IMAGES, "--set", "metric.target=0.5")
    assert result["verdict"] != "invalid"
    assert result["findings"] == []


def write_rows(copied: int) -> None:
    """Sentences whose label hardly shows, some of them two more times with other marks."""
    random = np.random.default_rng(0)
    texts = [" ".join(random.choice(WORDS, 12)) for _ in range(700)]
    labels = ["yes" if one.count("u") + random.normal(0, 4) > 6 else "no" for one in texts]
    again = np.tile(np.arange(copied), 2)
    texts += [f"{texts[at].capitalize()}, {random.choice(WORDS)}!" for at in again]
    labels += [labels[at] for at in again]
    frame = pl.DataFrame({"body": texts, "label": labels})
    frame.sample(fraction=1, shuffle=True, seed=0).write_csv("rows.csv")


@pytest.mark.extended
def test_near_copies_of_texts_in_a_table() -> None:
    write_rows(350)
    ran, result = trained(TABLE)
    assert (ran.code, result["verdict"]) == (3, "invalid")
    found = result["findings"][0]
    assert (found["finding"], found["outcome"]) == ("near_duplicates", "changes_decision")
    assert found["after"]["value"] < 0.75 < found["before"]["value"]

    settled = json.dumps(yaml.safe_load(found["write"])["data"]["quality"])
    _, dropped = trained(TABLE, "--set", f"data.quality={settled}")
    assert dropped["verdict"] in ("missed", "undecided")

    write_rows(0)
    assert trained(TABLE)[1]["findings"] == []


@pytest.mark.extended
@pytest.mark.torch
def test_a_text_that_repeats_itself() -> None:
    pytest.importorskip("torch")
    random = np.random.default_rng(0)
    text = " ".join(random.choice(WORDS, 6000))
    Path("text.txt").write_text(text + text[2000:6000])
    ran, result = trained(TEXT)
    assert ran.code == 0
    (found,) = result["findings"]
    assert found["finding"] == "text_overlap"
    assert found["outcome"] in ("measured", "not_measured")
    assert found["before"]["condition"] == "on all test segments"
    assert found["after"]["value"] is not None
    Path("text.txt").write_text(text)
    assert trained(TEXT)[1]["findings"] == []

    # All of the test part stands in the training part: nothing is left to judge.
    Path("text.txt").write_text(text + text[2000:14000])
    ran, result = trained(TEXT)
    assert (ran.code, result["verdict"]) == (3, "invalid")
    assert result["findings"][0]["after"]["value"] is None
