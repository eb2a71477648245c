"""What a contract says about memory, from its text to the run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from command import NETWORK, events_of_one, inside, project_in, train_one, write_project  # noqa: E402
from trainwright.data.loading.feed import Batch  # noqa: E402
from trainwright.objective.losses import LossSum, Supervised  # noqa: E402

pytestmark = pytest.mark.torch


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    yield from project_in(tmp_path, NETWORK)


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The most rows of a micro-batch for which there is memory."""
    most = [10]
    whole = Supervised.__call__

    def tight(loss: Supervised, model: nn.Module, batch: Batch) -> LossSum:
        if model.training and len(batch[-1]) > most[0]:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB")
        return whole(loss, model, batch)

    monkeypatch.setattr(Supervised, "__call__", tight)
    return most


@pytest.mark.extended
def test_by_default_micro_batches_become_smaller(project: Path, memory: list[int]) -> None:
    ran = train_one()
    assert ran.code in (0, 3), ran.err
    noted = events_of_one("noted")
    assert [event["numbers"]["rows"] for event in noted] == [16, 8]
    assert "note      memory ran out with micro-batches of 32 rows" in ran.err


def test_raise_ends_the_run_with_a_checkpoint(project: Path, memory: list[int]) -> None:
    ran = train_one("training.guard.out_of_memory=raise")
    assert ran.code == 14
    assert "memory ran out in micro-batches of 32 rows" in ran.err
    assert "set training.guard.out_of_memory: split" in ran.err
    (ended,) = events_of_one("ended")
    assert ended["kind"] == "halted"


@pytest.mark.extended
def test_one_row_that_does_not_fit_ends_the_run(project: Path, memory: list[int]) -> None:
    memory[0] = 0
    ran = train_one()
    assert ran.code == 14
    assert "memory ran out in micro-batches of 1 row at" in ran.err
    assert [event["numbers"]["rows"] for event in events_of_one("noted")] == [16, 8, 4, 2, 1]


IN_BACKWARD = [
    "training.memory.update=in_backward",
    "training.gradient_clipping=off",
    "training.guard.non_finite=rollback",
    "training.num_epochs=2",
]

BLOCKS = "model={kind: tabular_resnet, width: 16, blocks: 3}"


def weights() -> bytes:
    return Path("runs/one/bundle/network.safetensors").read_bytes()


def test_a_run_that_computes_activations_again_ends_with_the_same_bits(
    project: Path, tmp_path: Path
) -> None:
    found = []
    for number, how in enumerate(("off", "full", "{kind: every, n: 2}", "{kind: by_op}")):
        folder = tmp_path / str(number)
        folder.mkdir()
        write_project(folder, NETWORK)
        with inside(folder):
            ran = train_one(
                BLOCKS, f"training.memory.activation_checkpointing={how}", "training.num_epochs=1"
            )
            assert ran.code in (0, 3), ran.err
            found.append(weights())
    assert set(found) == {found[0]}


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (
            ["training.memory.activation_checkpointing=full"],
            "a model of kind mlp has no blocks to compute again",
        ),
        (
            [BLOCKS, "training.memory.activation_checkpointing={kind: every, n: 4}"],
            "the model has 3 blocks, so no block would be computed again",
        ),
        (
            ["training.memory.offload_activations=true"],
            "there is no GPU to offload from: activations",
        ),
        (
            ["training.memory.offload_optimizer=true"],
            "there is no GPU to offload from: the optimizer's state",
        ),
        (
            ["training.memory.offload_optimizer=true", "training.optimizer.name=lion"],
            "training.optimizer.name: offload_optimizer does not go with it",
        ),
        (
            [
                "training.memory.offload_optimizer=true",
                "training.optimizer={name: sgd, momentum: 0.0}",
            ],
            "there is nothing to offload: sgd without momentum keeps no state",
        ),
        (
            ["training.memory.offload_optimizer=true", *IN_BACKWARD],
            "training.memory.update: offload_optimizer does not go with it",
        ),
    ],
)
def test_what_cannot_be_is_refused(settings: list[str], says: str, project: Path) -> None:
    ran = train_one(*settings)
    assert ran.code == 2
    assert says in ran.err
    assert not Path("runs").exists()


def test_updates_inside_the_backward_pass_end_with_the_same_bits(tmp_path: Path) -> None:
    found = []
    for number, settings in enumerate((IN_BACKWARD, IN_BACKWARD[1:])):
        folder = tmp_path / str(number)
        folder.mkdir()
        write_project(folder, NETWORK)
        with inside(folder):
            ran = train_one(*settings)
            assert ran.code in (0, 3), ran.err
            found.append(weights())
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("settings", "path"),
    [
        (["training.gradient_clipping=1.0"], "training.gradient_clipping"),
        (["training.mixed_precision=fp16"], "training.mixed_precision"),
        (["training.guard.non_finite=skip"], "training.guard.non_finite"),
        (["training.guard.out_of_memory=split"], "training.guard.out_of_memory"),
        (["training.gradient_accumulation_steps=2"], "training.gradient_accumulation_steps"),
        (["training.optimizer.name=lion"], "training.optimizer.name"),
        (["training.effective_batch_size=64"], "training.batch_size"),
    ],
)
def test_updates_inside_the_backward_pass_refuse(
    settings: list[str], path: str, project: Path
) -> None:
    ran = train_one(*IN_BACKWARD, *settings)
    assert ran.code == 2
    assert f"{path}: update: in_backward" in ran.err
