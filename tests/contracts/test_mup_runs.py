"""A contract with `init: mup`: trained, cut in two, judged, and refused where it cannot be."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from canary import Killed
from command import command, inside
from contract_runs import bits, train

pytest.importorskip("torch")

pytestmark = pytest.mark.torch

CONTRACT = """
name: scaled
task: generation
data: {kind: tokens, path: notes.txt, vocabulary: bytes, validation: 0.1, test: 0.1}
model: {kind: gpt, layers: 1, heads: 2, width: 32, context: 16, dropout: 0.1,
        init: {kind: mup, base_width: 8, base_heads: 2}}
training: {num_steps: 6, batch_size: 8, early_stopping: off, optimizer: {learning_rate: 0.01},
           checkpointing: {save_every_n_steps: 2}}
metric: {name: bits_per_byte, target: dummy, resamples: 100}
"""


@pytest.fixture
def contract(tmp_path: Path) -> Path:
    draw = random.Random(2)
    (tmp_path / "notes.txt").write_text(" ".join(draw.choices(["ab", "bad", "cab"], k=900)))
    (tmp_path / "scaled.yaml").write_text(CONTRACT)
    return tmp_path / "scaled.yaml"


def test_a_run_cut_in_two_has_the_same_bits(contract: Path) -> None:
    whole = train(contract, "whole")
    with pytest.raises(Killed):
        train(contract, "cut", dies_at=random.Random().randint(1, 5))
    assert bits(train(contract, "cut")) == bits(whole)


def test_it_is_judged_and_not_exported(contract: Path) -> None:
    with inside(contract.parent):
        assert command("train", "scaled.yaml", "--run", "one").code in (0, 3)
        assert command("evaluate", "one", "notes.txt").code in (0, 3)
        assert command("generate", "one", "ab", "--tokens", "8").code == 0
        ran = command("weights", "export", "one", "--to", "huggingface", "-o", "out")
        assert (ran.code, "init: mup" in ran.err) == (2, True)
        for setting, said in (
            ("training.optimizer={name: lion}", "the rates of mup are those of Adam"),
            ("model.architecture=base", "a model in the shape of a base has its own scale"),
        ):
            ran = command("train", "scaled.yaml", "--run", "two", "--set", setting)
            assert (ran.code, said in ran.err) == (2, True), ran.err
