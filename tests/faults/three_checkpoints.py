"""A folder with three checkpoints, and what they must hold."""

from __future__ import annotations

import json
from pathlib import Path

import torch

from trainwright.checkpoint.state import Snapshot
from trainwright.checkpoint.store import Checkpoints, Loaded
from trainwright.core.files import hash_value

LAST = "step-0000000003"


def parts_of(step: int) -> dict[str, Snapshot]:
    generator = torch.Generator().manual_seed(step)
    tensors = {"weight": torch.rand(6, 5, generator=generator), "bias": torch.full((5,), step)}
    return {
        "model": Snapshot(tensors=tensors),
        "optimizer": Snapshot(tensors={"exp_avg": torch.rand(6, 5, generator=generator)}),
        "progress": Snapshot(values={"step": step}),
    }


def write_three(folder: Path) -> Path:
    checkpoints = Checkpoints(folder, 3)
    for step in (1, 2, 3):
        checkpoints.save(step, parts_of(step), {"seed": 0}, 1 / step)
    return folder


def load(folder: Path) -> Loaded:
    found = Checkpoints(folder, 3).newest_valid()
    assert isinstance(found, Loaded)
    wanted = parts_of(found.step)
    assert found.parts.keys() == wanted.keys()
    for part, snapshot in wanted.items():
        assert found.parts[part].values == snapshot.values
        for name, tensor in snapshot.tensors.items():
            assert torch.equal(found.parts[part].tensors[name], tensor)
    return found


def sign(path: Path, outer: dict[str, object]) -> None:
    """Let the hash of a manifest fit its content, with no ledger to say otherwise."""
    outer["sha256"] = hash_value(outer["content"])
    text = json.dumps(outer, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    path.write_text(text)
    (path.parent.parent / "ledger.jsonl").unlink(missing_ok=True)
