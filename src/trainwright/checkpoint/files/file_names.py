"""File names in a checkpoint folder."""

from __future__ import annotations

import re
from typing import Final

LEDGER: Final = "ledger.jsonl"
POINTERS: Final = "pointers.json"
QUARANTINE: Final = "quarantine-"
"""Prefix of checkpoints that failed verification."""

TREES: Final = re.compile(r"trees-([0-9]{10})\.json")
_STEP = re.compile(r"step-[0-9]{10,18}")


def name_of(step: int) -> str:
    """Name of the checkpoint of a step."""
    return f"step-{step:010d}"


def step_of(name: str) -> int:
    """Step of a checkpoint name."""
    return int(name.removeprefix("step-"))


def is_checkpoint(name: str) -> bool:
    """Is this a valid checkpoint name?"""
    return bool(_STEP.fullmatch(name))
