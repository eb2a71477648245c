"""Export of a run's weights as plain safetensors. Needs torch."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

from safetensors.torch import load_file, save
from torch import Tensor

from trainwright.checkpoint.files.file_entry import is_checkpoint, name_of, read_file, step_of
from trainwright.checkpoint.files.manifest import LostBase, read_manifest, read_parts
from trainwright.checkpoint.state import Snapshot
from trainwright.checkpoint.states.eval_weights_state import EVALUATED, MODEL, WEIGHTS
from trainwright.checkpoint.strict_json import Damaged
from trainwright.core.errors import Mistake, Problem
from trainwright.core.files import write_atomic
from trainwright.model.row_state import PROJECTION
from trainwright.run.folder.check_own_files import read_own_bundle
from trainwright.tracking.run_folder import RunFolder

_WEIGHTS = {
    "network": "network.safetensors",
    "encoder": "model.safetensors",
    "image_encoder": "model.safetensors",
    "adapter": "adapter.safetensors",
}
"""Weights in a bundle, by its kind."""
_LAYOUT = {"format": "pt"}
"""Header required by the loaders of Hugging Face."""

_TRAINED = (
    "these are the trained weights, and the validation saw others, such as their mean: to keep "
    f'those, add to the state of the job: "{EVALUATED}": tw.EvaluatedState(mean, weights)'
)


class Exported(NamedTuple):
    """Names of the weights, and what is to be known of them; mostly nothing."""

    names: list[str]
    doubt: str = ""


def export_model(folder: RunFolder, output: Path) -> Exported:
    """Export the model of a finished run as one safetensors file in Hugging Face's layout. For a
    run from a script, the weights of its newest checkpoint. Everything read is verified.

    Raises:
        Mistake: there are no such weights. StorageFailed: the output cannot be written.
    """
    if folder.is_of_script:
        if not (steps := saved_steps(folder)):
            raise _no_weights(folder, f"no checkpoint in {folder.checkpoints}")
        return export_checkpoint(folder, steps[-1], output)
    if not folder.bundle.exists():
        raise _no_weights(folder, f"no {folder.bundle.name}: it is not finished")
    return Exported(_write(_of_bundle(folder), output))


def saved_steps(folder: RunFolder) -> list[int]:
    """Steps with a checkpoint, in order."""
    names = (path.name for path in folder.checkpoints.glob("*") if is_checkpoint(path.name))
    return sorted(map(step_of, names))


def export_checkpoint(folder: RunFolder, step: int, output: Path) -> Exported:
    """Export the weights of a checkpoint. Read-only: the run may be active.

    Raises:
        Mistake: there are no such weights. StorageFailed: the output cannot be written.
    """
    snapshot, doubt = _of_checkpoint(folder, step)
    # What only the training needs is no weight of the model.
    beside = f"{PROJECTION}."
    kept = {name: one for name, one in snapshot.tensors.items() if not name.startswith(beside)}
    return Exported(_write(kept, output), doubt)


def _write(tensors: Mapping[str, Tensor], output: Path) -> list[str]:
    whole = {name: tensor.contiguous() for name, tensor in tensors.items()}
    write_atomic(output, save(whole, metadata=_LAYOUT))
    return sorted(whole)


def _of_bundle(folder: RunFolder) -> dict[str, Tensor]:
    kind = read_own_bundle(folder).scorer.kind
    if kind not in _WEIGHTS:
        raise _no_weights(folder, f"its model is {kind}, not a network")
    return load_file(folder.bundle / _WEIGHTS[kind])


def _of_checkpoint(folder: RunFolder, step: int) -> tuple[Snapshot, str]:
    read = partial(read_file, folder.checkpoints / name_of(step))
    try:
        manifest, _ = read_manifest(read)
        parts = read_parts(read, manifest, partial(read_file, folder.checkpoints))
    except (Damaged, LostBase) as error:
        raise _no_weights(folder, f"step {step}: {error}") from None
    written = manifest.inventory if isinstance(manifest.inventory, dict) else {}
    recorded = written.get(WEIGHTS, {})
    # Checkpoints of a contract, and of earlier versions, have the part by its name alone.
    part = recorded.get("part") or (EVALUATED if EVALUATED in parts else MODEL)
    if part not in parts:
        raise _no_weights(
            folder,
            f"step {step} has the parts {', '.join(sorted(parts))}, and none is named {MODEL}",
            f'name the weights in the script, and train with it: state={{"{MODEL}": '
            "tw.ModuleState(model), ...}",
        )
    return parts[part], "" if recorded.get("validated", True) else _TRAINED


def _no_weights(folder: RunFolder, found: str, fix: str = "") -> Mistake:
    listing = f"trainwright runs checkpoints {shlex.quote(str(folder.path))}"
    return Mistake(
        Problem(
            f"there are no such weights in run {folder.name}",
            found=found,
            expected="a finished run of a network, or a step with a checkpoint",
            fix=fix or f"list the checkpoints with: {listing}",
        )
    )
