"""The names of what stands in a folder of checkpoints."""

from __future__ import annotations

import re
from typing import Final

LEDGER: Final = "ledger.jsonl"
POINTERS: Final = "pointers.json"
QUARANTINE: Final = "quarantine-"
"""Before the name of what did not verify."""

TREES: Final = re.compile(r"trees-([0-9]{10})\.json")
_STEP = re.compile(r"step-[0-9]{10,18}")


def name_of(step: int) -> str:
    """The name of the checkpoint of a step."""
    return f"step-{step:010d}"


def step_of(name: str) -> int:
    """The step that a checkpoint's name says."""
    return int(name.removeprefix("step-"))


def is_checkpoint(name: str) -> bool:
    """Whether a checkpoint can have this name."""
    return bool(_STEP.fullmatch(name))
