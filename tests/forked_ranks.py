"""Starts the ranks of a test from a process that has imported torch: they need not do so again."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from typing import Any

from torch.multiprocessing.spawn import start_processes

IMPORTED = ["torch.distributed.fsdp", "trainwright.testing.strategy_conformance"]


def start_ranks(run: Callable[..., None], ranks: int, arguments: tuple[Any, ...]) -> None:
    """Call `run(rank, *arguments)` in a process a rank, and wait for all of them.

    Raises:
        torch.multiprocessing.ProcessRaisedException, ProcessExitedException: a rank failed.
    """
    multiprocessing.set_forkserver_preload(IMPORTED)
    start_processes(run, arguments, nprocs=ranks, start_method="forkserver")
