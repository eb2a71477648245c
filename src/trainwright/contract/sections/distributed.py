"""`distributed`: over how many devices."""

from __future__ import annotations

from typing import Literal

from trainwright.contract.sections.section import Auto, Count, Section


class Distributed(Section):
    """Over how many devices, and how the work is divided among them."""

    strategy: Literal["single", "ddp", "fsdp"] = "single"
    """`single`: one process. `ddp`: a copy of the model on each device. `fsdp`: the model
    sharded."""

    num_gpus: Auto | Count = "auto"
    """Devices. `auto`: one."""

    backend: Auto | Literal["gloo", "nccl"] = "auto"
    """Communication backend between devices."""
