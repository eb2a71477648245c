"""Contract keys that this version does not implement yet. Reading a contract does not check this;
whatever acts on the contract does, and raises `NotAvailable`."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.contract.document import Contract
from trainwright.core.errors import Problem


def unavailable(contract: Contract) -> list[Problem]:
    """A problem for each key that asks for work which is not built, without places."""
    return [
        *_distributed(contract),
        *_tracking(contract),
    ]


def _not_available(what: str, path: str, found: str, fix: str) -> Problem:
    return Problem(f"not available in this version: {what}", path=path, found=found, fix=fix)


def _distributed(contract: Contract) -> Iterator[Problem]:
    distributed = contract.distributed
    if distributed.strategy != "single":
        yield _not_available(
            "several processes", "distributed.strategy", distributed.strategy, "choose single"
        )
    if distributed.num_gpus not in ("auto", 1):
        yield _not_available(
            "several devices", "distributed.num_gpus", str(distributed.num_gpus), "choose 1"
        )
    if distributed.backend == "nccl":
        yield _not_available("nccl", "distributed.backend", "nccl", "choose auto")


def _tracking(contract: Contract) -> Iterator[Problem]:
    if contract.tracking.sinks:
        yield _not_available(
            "trackers outside of the run folder",
            "tracking.sinks",
            ", ".join(contract.tracking.sinks),
            "remove sinks; the run folder holds every signal",
        )
