"""What a contract says about memory, from its text to the run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from command import CONTRACT, command, inside, write_project  # noqa: E402
from trainwright.data.feed import Batch  # noqa: E402
from trainwright.objective.losses import LossSum, Supervised  # noqa: E402

pytestmark = pytest.mark.torch

NETWORK = (
    CONTRACT.replace("kind: boosting", "kind: mlp").replace("max_trees: 5", "hidden: [16, 8]")
    + "training:\n  num_epochs: 4\n  batch_size: 32\n"
)


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    write_project(tmp_path, NETWORK)
    with inside(tmp_path):
        yield tmp_path


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


def events(kind: str) -> list[dict[str, object]]:
    lines = Path("runs/one/events.jsonl").read_text().splitlines()
    return [event for event in map(json.loads, lines) if event["event"] == kind]


def train(*settings: str) -> tuple[int, str]:
    words = [word for setting in settings for word in ("--set", setting)]
    ran = command("train", "small.yaml", "--run", "one", *words)
    return ran.code, ran.err


def test_by_default_micro_batches_become_smaller(project: Path, memory: list[int]) -> None:
    code, said = train()
    assert code in (0, 3), said
    noted = events("noted")
    assert [event["numbers"]["rows"] for event in noted] == [16, 8]
    assert "note      memory ran out with micro-batches of 32 rows" in said


def test_raise_ends_the_run_with_a_checkpoint(project: Path, memory: list[int]) -> None:
    code, said = train("training.guard.out_of_memory=raise")
    assert code == 14
    assert "memory ran out in micro-batches of 32 rows" in said
    assert "set training.guard.out_of_memory: split" in said
    (ended,) = events("ended")
    assert ended["kind"] == "halted"


def test_one_row_that_does_not_fit_ends_the_run(project: Path, memory: list[int]) -> None:
    memory[0] = 0
    code, said = train()
    assert code == 14
    assert "memory ran out in micro-batches of 1 row at" in said
    assert [event["numbers"]["rows"] for event in events("noted")] == [16, 8, 4, 2, 1]
