"""`tracking`: where a run is recorded beside its own folder."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from trainwright.contract.section import Section


class Tracking(Section):
    """Where a run is recorded beside its own folder, which always holds everything."""

    sinks: tuple[Literal["mlflow", "tensorboard", "wandb"], ...] = Field(default=())
    """Trackers that get the signals as well."""
