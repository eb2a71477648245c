"""Frozen modules of a contract: stored once, written when trained, exact through deaths."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from canary import Killed  # noqa: E402
from command import with_layers, write_project  # noqa: E402
from contract_runs import Run, bits, train  # noqa: E402
from trainwright.checkpoint.files.tensor_file import read_foreign  # noqa: E402
from trainwright.checkpoint.store import Checkpoints, Loaded  # noqa: E402

pytestmark = pytest.mark.torch

EPOCHS = 4
NETWORK = (
    with_layers("[16, 8]")
    + f"training:\n  num_epochs: {EPOCHS}\n  batch_size: 32\n  early_stopping: off\n"
    + "  checkpointing: {keep_last: 99, save_every_n_steps: 3}\n"
)
ALWAYS = ("training.freeze={body: always}",)
STAGED = ("training.freeze={body: 2}",)
AVERAGED = (*ALWAYS, "training.average={kind: ema}")
BACKGROUND = (*STAGED, "training.average={kind: ema}", "training.checkpointing.asynchronous=true")


def written(run: Run, part: str = "model") -> dict[int, set[str]]:
    """Tensors of a part that each checkpoint holds itself, by step."""
    files = sorted(run.folder.checkpoints.glob(f"step-*/{part}.safetensors"))
    return {int(f.parent.name[5:]): set(read_foreign(f.read_bytes())) for f in files}


def bases(run: Run) -> list[Path]:
    return list(run.folder.checkpoints.glob("base-*"))


@pytest.mark.parametrize("settings", [ALWAYS, STAGED, AVERAGED, BACKGROUND])
def test_a_frozen_run_survives_deaths_at_random_steps(
    settings: tuple[str, ...], tmp_path: Path
) -> None:
    contract = write_project(tmp_path, NETWORK)
    whole = train(contract, "whole", *settings)
    steps = whole.ended.progress.step
    for number, death in enumerate(
        sorted(random.Random(len(str(settings))).sample(range(steps), 2))
    ):
        name = f"cut-{number}"
        with pytest.raises(Killed):
            train(contract, name, *settings, dies_at=death)
        cut = train(contract, name, *settings)
        assert cut.ended == whole.ended
        assert bits(cut) == bits(whole)
        assert len(bases(cut)) == 1


def test_what_is_always_frozen_is_in_no_checkpoint(tmp_path: Path) -> None:
    run = train(write_project(tmp_path, NETWORK), "one", *AVERAGED)
    frozen = {n for n, p in run.job.model.named_parameters() if not p.requires_grad}
    assert frozen
    assert len(bases(run)) == 1
    for part in ("model", "mean", "evaluated"):
        held = written(run, part)
        assert held
        assert not any(frozen & names for names in held.values())
    newest = Checkpoints(run.folder.checkpoints, 1).newest_valid()
    assert isinstance(newest, Loaded)
    for part in ("model", "mean", "evaluated"):
        tensors = newest.parts[part].tensors
        assert all(torch.equal(tensors[n], run.job.model.state_dict()[n]) for n in frozen)


def test_a_module_is_written_from_its_unfreezing_on(tmp_path: Path) -> None:
    run = train(write_project(tmp_path, NETWORK), "one", *STAGED)
    body = {n for n, _ in run.job.model.named_parameters() if n.startswith("body")}
    held = written(run)
    steps = run.ended.progress.step
    early = [names for step, names in held.items() if step <= steps // 2]
    late = [names for step, names in held.items() if step > steps // 2]
    assert len(early) > 1
    assert len(late) > 1
    assert not any(body & names for names in early)
    assert all(body <= names for names in late)
    assert len(bases(run)) == 1
