"""How many threads a run may use, and how many are worth their cost: by the contract, the size of
the work, the cores, the CPU quota of a container, and what else the machine is doing."""

from __future__ import annotations

import math
import os
import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, final

CELLS_PER_THREAD = 150_000
"""Cells of the training rows from which a further thread makes trees grow faster."""

FEW_ROWS = 64
"""Rows that are predicted sooner than threads have started."""

_GROUPS = Path("/sys/fs/cgroup")
_OWN_GROUPS = Path("/proc/self/cgroup")
_STATISTICS = Path("/proc/stat")
_SAMPLES, _SECONDS_BETWEEN = 15, 0.001
_SCHEDULER = Path("/proc/thread-self/schedstat")
_LEAST_NANOSECONDS = 100_000_000
_OF_OPENMP, _OF_OPENBLAS = "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"


@final
@dataclass(slots=True, eq=False)
class _Scope:
    """A run: the threads that it may use and those of a run around it, 0 where they are left open,
    and how its end restores the libraries."""

    outer: int
    count: int = 0
    undo: ExitStack = field(default_factory=ExitStack)


_scopes: Final[list[_Scope]] = []
"""Of the process, not of a thread: libraries start threads that ask too. The innermost is last."""


@contextmanager
def own_threads(count: Literal["auto"] | int = "auto") -> Iterator[None]:
    """A run with so many threads; each library is left with those it had before."""
    scope = _Scope(thread_limit())
    _scopes.append(scope)
    try:
        use_threads(count)
        yield
    finally:
        scope.undo.close()
        _scopes.remove(scope)


def use_threads(count: Literal["auto"] | int) -> None:
    """Give the run inside `own_threads` so many threads; outside of it nothing changes. `auto`
    takes those of a run around it, and else limits torch to the CPU quota."""
    if _scopes:
        scope = _scopes[-1]
        scope.undo.close()
        scope.count = scope.outer if count == "auto" else count
        limit_libraries()


def limit_libraries() -> None:
    """Limit torch, BLAS and OpenMP to the threads of the run, as far as they are loaded by now; a
    BLAS that is first loaded later reads the environment, and keeps the number."""
    if not _scopes:
        return
    count, undo = _scopes[-1].count, _scopes[-1].undo
    if (torch := sys.modules.get("torch")) is not None:
        before, quota = torch.get_num_threads(), cpu_quota()
        # The number that torch takes by itself ignores quotas; one that the user has set stays.
        is_open = math.isfinite(quota) and _OF_OPENMP not in os.environ
        within = min(before, max(1, int(quota))) if is_open else before
        if (threads := count or within) != before:
            undo.callback(torch.set_num_threads, before)
            torch.set_num_threads(threads)
    if count:
        from threadpoolctl import threadpool_limits

        undo.enter_context(threadpool_limits(count))
        undo.callback(_restore, _OF_OPENBLAS, os.environ.get(_OF_OPENBLAS))
        os.environ[_OF_OPENBLAS] = str(count)


def _restore(name: str, value: str | None) -> None:
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value


@final
class MachineLoad:
    """How many times as long as on an idle machine the work of this thread has taken since, as it
    had to wait for a core; 1 where the kernel does not say."""

    def __init__(self, statistics_file: Path = _SCHEDULER) -> None:
        self._file = statistics_file
        self._before = self._read_times()

    @property
    def factor(self) -> float:
        """1 if it never waited."""
        ran, waited = (
            now - before for now, before in zip(self._read_times(), self._before, strict=True)
        )
        return 1 + waited / max(ran, _LEAST_NANOSECONDS)

    def _read_times(self) -> tuple[int, int]:
        try:
            ran, waited, _ = map(int, self._file.read_text().split())
        except (OSError, ValueError):
            return 0, 0
        return ran, waited


def thread_limit() -> int:
    """Threads that the contract of the run names; 0 if it leaves them open."""
    return _scopes[-1].count if _scopes else 0


def usable_cores() -> int:
    """Threads that may work at a time, at least one: those that the run was given, else the cores
    that this process may run on, and no more than its CPU quota lasts for."""
    if threads := thread_limit():
        return threads
    cores = len(os.sched_getaffinity(0))
    quota = cpu_quota()
    return cores if math.isinf(quota) else max(1, min(cores, int(quota)))


def prediction_threads(rows: int) -> int:
    """Threads to predict so many rows: one for few, which threads would wait longer for."""
    return usable_cores() if rows > FEW_ROWS else 1


def choose_threads(cells: int, cores: int, idle: int) -> int:
    """Threads for training rows of so many cells, on `cores` that may be used, with `idle` cores of
    the machine without work.

    Threads that grow a tree wait for each other many times a second, so one without a core of its
    own makes all of them slower than a single one.
    """
    return max(1, min(cores, idle, math.ceil(cells / CELLS_PER_THREAD)))


def idle_cores(statistics_file: Path = _STATISTICS) -> int:
    """Cores of the machine without work, counting the one this process runs on; all of them where
    the kernel does not say."""
    samples = []
    for _ in range(_SAMPLES):
        try:
            lines = statistics_file.read_text().splitlines()
            running = next(int(line.split()[1]) for line in lines if line.startswith("procs_runn"))
        except (OSError, ValueError, IndexError, StopIteration):
            return os.cpu_count() or 1
        samples.append(running)
        time.sleep(_SECONDS_BETWEEN)
    return (os.cpu_count() or 1) - int(statistics.median(samples)) + 1


def cpu_quota(groups: Path = _GROUPS, own_groups: Path = _OWN_GROUPS) -> float:
    """Cores whose time the control groups of this process may use; infinite without a limit."""
    try:
        lines = own_groups.read_text().splitlines()
    except OSError:
        return math.inf
    return min((quota for line in lines for quota in _quotas(line, groups)), default=math.inf)


def _quotas(line: str, groups: Path) -> Iterator[float]:
    """Quotas of a group, as a line of /proc/self/cgroup names it, and of those it lies in. Inside a
    container the path may be that outside of it: the last one, the root, is always there."""
    _, controllers, path = line.split(":", 2)
    if controllers and "cpu" not in controllers.split(","):
        return
    root = groups / "cpu" if controllers else groups
    group = Path(path.strip())
    for folder in (group, *group.parents):
        try:
            inside = root / folder.relative_to("/")
            if controllers:
                quota = (inside / "cpu.cfs_quota_us").read_text()
                period = (inside / "cpu.cfs_period_us").read_text()
            else:
                quota, period = (inside / "cpu.max").read_text().split()
            if quota.strip() != "max" and int(quota) > 0:
                yield int(quota) / int(period)
        except (OSError, ValueError):
            continue
