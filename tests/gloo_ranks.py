"""Processes joined by gloo: the conformance of data parallelism."""

from __future__ import annotations

import json
import os
import traceback
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import torch
from torch import distributed

from deadlines import within
from forked_ranks import start_ranks
from trainwright.distributed.data_parallel import DataParallel
from trainwright.testing.strategy_conformance import CHECKS


def _run(rank: int, world_size: int, folder: str) -> None:
    torch.set_num_threads(1)
    distributed.init_process_group(
        "gloo",
        init_method=f"file://{folder}/meeting",
        rank=rank,
        world_size=world_size,
        timeout=timedelta(seconds=within(120)),
    )
    found: dict[str, Sequence[float] | str] = {}
    for name, check in CHECKS.items():
        try:
            found[name] = check(DataParallel(torch.device("cpu")))
        except Exception:
            found[name] = traceback.format_exc()
            break  # the ranks are no longer at the same place
    (Path(folder) / f"{rank}.json").write_text(json.dumps(found))
    distributed.destroy_process_group()
    # A thread of gloo may still hold the tensors of the last collective: it needs the interpreter
    # to drop them, and aborts the process if that is ending (pytorch/pytorch#179291).
    os._exit(0)


def check_all(world_size: int, folder: Path) -> list[dict[str, Sequence[float] | str]]:
    """What each check returned on each rank, or its error."""
    start_ranks(_run, world_size, (world_size, str(folder)))
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(world_size)]
