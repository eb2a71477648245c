"""Small models of the architectures of transformers: checked, trained, and refused in one error."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from architectures import Reads, write_base, write_project
from command import command, inside

pytestmark = pytest.mark.torch


def project(name: str, reads: Reads, folder: Path) -> Path:
    write_base(name, reads, folder / "base")
    write_project(folder, reads)
    return folder


@pytest.mark.parametrize(
    "name",
    [
        *("gpt2", "bart"),
        *(pytest.param(one, marks=pytest.mark.extended) for one in ("openai-gpt", "t5", "jamba")),
    ],
)
def test_a_decoder_and_an_encoder_with_decoder_are_classifiers(name: str, tmp_path: Path) -> None:
    with inside(project(name, "texts", tmp_path)):
        ran = command("train", "contract.yaml", "--run", "one")
        assert ran.code in (0, 3), ran.err
        alone = command("predict", "one", "texts.csv", "-o", "out.csv")
        assert alone.code == 0, alone.err


def test_rotary_positions_that_grow_are_counted(tmp_path: Path) -> None:
    folder = project("llama", "tokens", tmp_path)
    file = folder / "base" / "config.json"
    rope = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10_000.0}
    file.write_text(json.dumps(json.loads(file.read_text()) | {"rope_parameters": rope}))
    with inside(folder):
        ran = command("train", "contract.yaml")
    assert ran.code in (0, 3), ran.err


def test_an_end_that_the_tokenizer_does_not_write_is_one_error(tmp_path: Path) -> None:
    folder = project("bart", "texts", tmp_path)
    file = folder / "base" / "tokenizer.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"post_processor": None}))
    with inside(folder):
        ran = command("train", "contract.yaml")
    assert ran.code == 2
    assert "at least one <eos> token" in ran.err
    assert not (folder / "runs").exists()


@pytest.mark.parametrize("name", ["xlnet", pytest.param("fnet", marks=pytest.mark.extended)])
def test_scores_that_would_depend_on_the_batch_are_one_error(name: str, tmp_path: Path) -> None:
    with inside(project(name, "texts", tmp_path)):
        ran = command("check", "contract.yaml")
    assert ran.code == 2
    assert "reads the padding" in ran.err


@pytest.mark.extended
def test_the_padding_of_a_part_of_a_configuration_is_known(tmp_path: Path) -> None:
    with inside(project("qwen3_5", "texts", tmp_path)):
        ran = command("check", "contract.yaml")
    assert ran.code in (0, 4), ran.err  # the plan is made
