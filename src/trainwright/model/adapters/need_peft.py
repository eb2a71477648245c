"""PEFT, checked before anything else of a run."""

from __future__ import annotations

from typing import Final

from trainwright.core.lazy_imports import need_package, need_torch

ADAPTER_PATH: Final = "model.adapter"


def need_peft() -> None:
    """Raise `MissingExtra` if PEFT is not installed."""
    need_torch(ADAPTER_PATH, "an adapter")
    need_package("peft", "adapters", ADAPTER_PATH, "an adapter")
