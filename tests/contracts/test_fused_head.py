"""A contract with a fused head: the run of a separate one up to rounding, and resumed exactly."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from canary import Killed
from contract_runs import bits, train
from trainwright.core.errors import Mistake

pytest.importorskip("torch")

pytestmark = pytest.mark.torch

CONTRACT = """
name: fused
task: generation
data: {kind: tokens, path: notes.txt, separator: ". ", windows: packed, validation: 0.1, test: 0.1}
model: {kind: gpt, layers: 1, heads: 2, width: 16, context: 16, dropout: 0.1}
training: {num_steps: 5, batch_size: 4, gradient_accumulation_steps: 2, early_stopping: off,
           optimizer: {learning_rate: 0.01}, memory: {head_loss: fused},
           loss: {name: cross_entropy, z_loss: 0.0001},
           checkpointing: {save_every_n_steps: 1}}
metric: {name: bits_per_byte, target: dummy, resamples: 100}
"""


@pytest.fixture
def contract(tmp_path: Path) -> Path:
    draw = random.Random(2)
    words = draw.choices(["ab", "bad", "cab.", "fade"], k=1500)
    (tmp_path / "notes.txt").write_text(" ".join(words))
    (tmp_path / "fused.yaml").write_text(CONTRACT)
    return tmp_path / "fused.yaml"


def test_it_is_the_run_of_a_separate_head(contract: Path) -> None:
    fused = train(contract, "fused")
    separate = train(contract, "separate", "training.memory.head_loss=separate")
    assert fused.signals["loss"] == pytest.approx(separate.signals["loss"], rel=1e-5)
    less, more = fused.ready.plan.memory, separate.ready.plan.memory
    assert not isinstance(less, str)
    assert not isinstance(more, str)
    tokens = fused.ready.prepared.target.outputs
    assert more.activations - less.activations == 4 * 16 * 2 * tokens * 4


def test_a_run_cut_in_two_has_the_same_bits(contract: Path) -> None:
    whole = train(contract, "whole")
    with pytest.raises(Killed):
        train(contract, "cut", dies_at=random.Random().randint(1, 4))
    assert bits(train(contract, "cut")) == bits(whole)


@pytest.mark.parametrize(
    "setting",
    [
        "training.loss={name: focal}",
        "training.compute.compile=on",
        "training.mixed_precision=fp16",
    ],
)
def test_what_it_does_not_know_is_refused(contract: Path, setting: str) -> None:
    with pytest.raises(Mistake, match="head_loss: fused does not go with it"):
        train(contract, "other", setting)
