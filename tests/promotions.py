"""Processes that promote in one registry, of which one dies, and what they must leave."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time

from deadlines import within
from trainwright.registry.audit_log import find_broken_links
from trainwright.registry.registry import CHAMPION, Registry, Version

_STARTED = multiprocessing.get_context("spawn")


def version_of(model: str) -> Version:
    """A version that is not registered yet."""
    texts = ("run", "bundle", "data", "rows", "met", "production", "roc_auc")
    return Version(model, 0, *texts, 0.8, "")


def _promote_often(place: str, times: int) -> None:
    registry = Registry(place, place)  # all make the tables at once
    for _ in range(times):
        added = registry.add(version_of("income"), "")
        registry.record_gate(added, "promoted", [], str(os.getpid()))
        assert registry.read().find("income").number


def promote_at_once(place: str, processes: int, times: int, kills: int = 1) -> None:
    """Let processes promote, kill some, and check that there is one champion and a whole log."""
    writing = [
        _STARTED.Process(target=_promote_often, args=(place, times)) for _ in range(processes)
    ]
    for process in writing:
        process.start()
    registry, until = Registry(place, place), time.monotonic() + within(60)
    while len(registry.read().log) < times:
        assert time.monotonic() < until
    for process in writing[:kills]:
        os.kill(process.pid or 0, signal.SIGKILL)
    for process in writing:
        process.join(within(120))
    codes = [process.exitcode for process in writing]
    assert codes == [*[-signal.SIGKILL] * kills, *[0] * (processes - kills)], codes
    state = registry.read()
    assert find_broken_links(state.log) == []
    promoted = [line for line in state.log if line.event == "promoted"]
    assert len(promoted) >= times * (processes - kills)
    assert state.aliases == {("income", CHAMPION): promoted[-1].version}
    before = [line.version_before for line in promoted]
    assert before == [0, *(line.version for line in promoted[:-1])]
    numbers = [version.number for version in state.versions]
    assert numbers == list(range(1, len(numbers) + 1))
