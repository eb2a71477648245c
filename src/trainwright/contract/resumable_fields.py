"""Contract fields that cannot change a bit of a run's results.

They may differ on a resume. Everything not listed here is compared: a new field is part of the
experiment until proven otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from trainwright.contract.key_paths import join
from trainwright.contract.sections.data.data_traits import DELIVERY
from trainwright.core.files import Json

_CHECKPOINTING = (
    "save_every_n_steps",
    "save_every_n_tokens",
    "save_every_minutes",
    "expected_hours_between_failures",
    "keep_top_k",
    "keep_last",
    "keep_every_n_steps",
    "remote",
    "asynchronous",
    "on_failure",
)
_RESUME = (
    "data_changed",
    "code_changed",
    "numerics_changed",
    "notice",
    "notice_every_seconds",
    "grace_seconds",
)
_DISTRIBUTED = (
    *("strategy", "num_gpus", "backend", "tensor", "pipeline"),
    *("replicas", "reshard_after_forward"),
)
_SINKS = ("sinks", "mlflow_uri", "experiment", "tensorboard_folder", "drain_seconds")

FREE: Final[frozenset[str]] = frozenset(
    {
        "name",
        *(f"data.{field}" for field in DELIVERY),
        *(f"training.checkpointing.{field}" for field in _CHECKPOINTING),
        *(f"resume.{field}" for field in _RESUME),
        *(f"model.{field}" for field in ("revision", "base.commit", "base.licence")),
        "compute.threads",
        *(f"distributed.{field}" for field in _DISTRIBUTED),
        "training.gradient_accumulation_steps",
        "training.memory.margin",
        *(f"tracking.{field}" for field in _SINKS),
    }
)
"""How a run is called, in which time its batches come, the threads and ranks that are asked for
(those that are used are compared with a checkpoint's) and how they share the micro-batches of a
step, whose sizes are not free, where, how often and how many checkpoints are kept, how it goes on,
who hears of it, and what else is known of a base whose hashes are the plan's. Which checkpoints
there are decides only how far a rollback goes back. Not `checkpointing.rank_by`, which decides
whose weights are the model, and not `resume.determinism`, which decides which kernels compute."""


def is_free(path: str) -> bool:
    """Whether the field at a path, or a section that it lies in, is free."""
    parts = path.split(".")
    return any(".".join(parts[:end]) in FREE for end in range(1, len(parts) + 1))


def differences(old: Json, new: Json, path: str = "") -> Iterator[tuple[str, Json, Json]]:
    """Contract paths at which two contracts differ, with both values."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted({*old, *new}):
            inner = join(path, key)
            yield from differences(old.get(key, "absent"), new.get(key, "absent"), inner)
    elif old != new:
        yield path, old, new
