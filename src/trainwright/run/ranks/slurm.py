"""Ranks that Slurm has started. Imports no torch."""

from __future__ import annotations

import os
import re


def join_slurm_step() -> None:
    """Give torch.distributed the variables that torchrun would, from those of Slurm: each task of a
    job step is a rank. A step of one task, or a batch script outside srun, is no rank."""
    tasks = os.environ.get("SLURM_STEP_NUM_TASKS", "1")
    if "RANK" in os.environ or tasks == "1":
        return
    nodes = os.environ.get("SLURM_STEP_NODELIST") or os.environ["SLURM_JOB_NODELIST"]
    step = int(os.environ["SLURM_JOB_ID"]) * 10 + int(os.environ["SLURM_STEP_ID"])
    os.environ.setdefault("MASTER_ADDR", read_first_host(nodes))
    os.environ.setdefault("MASTER_PORT", str(20_000 + step % 10_000))
    os.environ["WORLD_SIZE"] = tasks
    os.environ["RANK"] = os.environ["SLURM_PROCID"]
    os.environ["LOCAL_RANK"] = os.environ["SLURM_LOCALID"]


def read_first_host(nodes: str) -> str:
    """The first host of a list of Slurm: `gpu01` of `gpu[01-03,07],login`."""
    return re.sub(r"\[([^],-]*)[^]]*\]", r"\1", nodes).partition(",")[0]
