"""Real processes that start in milliseconds: a process that has imported everything forks them.

`Zygote` is the side of the test. The other side, this file run as a program, reads one JSON object
a line: `{"start": {...}}` forks a child that runs the command `trainwright` in a folder and answers
with its pid; `{"wait": pid, "seconds": s}` answers with how it ended. A child has one thread, its
own process group, and its output in a file.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from trainwright.tracking.run_folder import RunFolder

SOURCE = Path(__file__).resolve().parents[2] / "src"

CONTRACT = """\
data: {path: rows.csv, target: bought, positive: "yes"}
model: {kind: mlp}
metric: {name: roc_auc}
"""
TIMED_OUT = "timed out"
NOT_IN_A_CHILD = ("trainwright.testing", "trainwright.model.adapters.quantized_linear")
"""What no child needs: the second imports bitsandbytes, which takes as long as torch."""

IDLE_THREADS = {"jemalloc_bg_thd", "polars-ooc-clea"}
"""Threads of polars that hold nothing which a forked child needs; it starts its own."""


@dataclass(frozen=True)
class Death:
    """How a process ended: its exit code, or the negative number of the signal that killed it."""

    code: int
    output: str


@dataclass(frozen=True)
class Child:
    """A started process."""

    pid: int
    log: Path


class Zygote:
    """Starts processes; a context manager. Every wait has a deadline, and passing it is a failure
    of the test."""

    def __init__(self, source: Path = SOURCE) -> None:
        """`source` is the folder that holds the package."""
        self._source = source

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={
                **os.environ,
                "OMP_NUM_THREADS": "1",
                "OPENBLAS_NUM_THREADS": "1",
                "POLARS_MAX_THREADS": "1",
                "MPLBACKEND": "Agg",
                "PYTHONPATH": str(self._source),
            },
        )
        assert self._answer() == "ready"
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)
        assert self._process.stdout is not None
        self._process.stdout.close()

    def start(
        self,
        words: Sequence[str],
        folder: Path,
        *,
        fault: str = "",
        journal: str = "",
        waits_for_disk: bool = False,
        write_bytes: int = 0,
        count_points: str = "",
        reports: bool = False,
        poison: int = 0,
        dies_at: int = 0,
        dies_by: str = "kill",
        notice: str = "",
        clock_jumps: bool = False,
        frozen_after: Sequence[float] = (),
        environment: Mapping[str, str] | None = None,
    ) -> Child:
        """Run `trainwright words...` in `folder`. Steps go to the file `journal`; with
        `write_bytes` a checkpoint is written in blocks of so many; how often each armed point was
        reached goes to the file `count_points`. The page for people is drawn only with `reports`:
        it takes longer than all the rest. The step that begins at the cursor `poison` gives no
        numbers; at the cursor `dies_at` the process dies. While it stands still at a fault
        point the file `notice` is made. With `clock_jumps` every look at the date finds
        another day, before or behind. `frozen_after`: seconds after which a rank that gives no sign
        or stands still is frozen. `environment` is added to that of the process."""
        log = folder / "output.txt"
        asked = {
            "words": list(words),
            "folder": str(folder),
            "log": str(log),
            "fault": fault,
            "journal": journal,
            "waits_for_disk": waits_for_disk,
            "write_bytes": write_bytes,
            "count_points": count_points,
            "reports": reports,
            "poison": poison,
            "dies_at": dies_at,
            "dies_by": dies_by,
            "notice": notice,
            "clock_jumps": clock_jumps,
            "frozen_after": list(frozen_after),
            "environment": dict(environment or {}),
        }
        return Child(int(self._ask({"start": asked})), log)

    def wait(self, child: Child, seconds: float = 60.0) -> Death:
        """How it ended. Its process group is empty then."""
        from deadlines import within

        seconds = within(seconds)
        code = self._ask({"wait": child.pid, "seconds": seconds})
        output = child.log.read_text()
        assert code.lstrip("-").isdigit(), f"{code} within {seconds} s:\n{output}"
        return Death(int(code), output)

    def run(
        self, words: Sequence[str], folder: Path, seconds: float = 60.0, **how: object
    ) -> Death:
        """Start and wait."""
        return self.wait(self.start(words, folder, **how), seconds)  # type: ignore[arg-type]

    def _ask(self, value: object) -> str:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(value) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> str:
        assert self._process.stdout is not None
        return str(json.loads(self._process.stdout.readline()))


def kill(child: Child, number: signal.Signals = signal.SIGKILL) -> bool:
    """Send a signal; whether the process was still there to get it."""
    try:
        os.kill(child.pid, number)
    except ProcessLookupError:
        return False
    return True


# The other side.


def _import_everything() -> None:
    import importlib
    import pkgutil

    import torch

    import trainwright
    from trainwright.tracking.environment import list_packages

    # Imported by torch and scikit-learn at the first step and the first fit.
    for name in ("torch._dynamo", "torch.onnx", "sklearn.linear_model", "matplotlib.pyplot"):
        importlib.import_module(name)
    for module in pkgutil.walk_packages(trainwright.__path__, "trainwright."):
        if not module.name.startswith(NOT_IN_A_CHILD) and "__main__" not in module.name:
            importlib.import_module(module.name)
    torch.set_num_threads(1)
    list_packages()
    _make_once()
    tasks = Path("/proc/self/task").iterdir()
    threads = [
        (task / "comm").read_text().strip() for task in tasks if task.name != str(os.getpid())
    ]
    assert set(threads) <= IDLE_THREADS, f"a fork would lose {threads}"


def _make_once() -> None:
    """What each child would make for itself: the tree of the verbs, the validators of contracts,
    the hash of the code."""
    import functools
    import gc

    import typer

    from trainwright.cli.main import app
    from trainwright.contract.reading.read_contract import read_contract
    from trainwright.run import audit_data

    typer.main.get_command = functools.cache(typer.main.get_command)
    typer.main.get_command(app)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "contract.yaml"
        path.write_text(CONTRACT)
        read_contract(path)
    audit_data._code()
    # A child that walked through all of this in search of garbage would copy its pages.
    gc.freeze()


def _serve() -> None:
    _import_everything()
    _say("ready")
    ended: dict[int, int] = {}
    for line in sys.stdin:
        asked = json.loads(line)
        if "start" in asked:
            pid = os.fork()
            if pid == 0:
                _become(asked["start"])
            _say(pid)
        else:
            _say(_wait(asked["wait"], asked["seconds"], ended))


def _wait(pid: int, seconds: float, ended: dict[int, int]) -> int | str:
    deadline = time.monotonic() + seconds
    while pid not in ended:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            ended[pid] = os.waitstatus_to_exitcode(status)
        elif time.monotonic() > deadline:
            os.killpg(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return TIMED_OUT
        else:
            time.sleep(0.002)
    # A program that it had asked something, git for example, may need a moment to end.
    while _has_members(pid):
        if time.monotonic() > deadline:
            os.killpg(pid, signal.SIGKILL)
            return "left processes behind"
        time.sleep(0.002)
    return ended[pid]


def _has_members(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def _become(asked: dict[str, object]) -> None:
    """The child: never returns."""
    code = 70
    try:
        os.setpgid(0, 0)
        os.chdir(str(asked["folder"]))
        log = os.open(str(asked["log"]), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        sys.stdout = os.fdopen(1, "w", buffering=1, closefd=False)
        sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
        _arrange(asked)
        from trainwright.cli.main import main

        sys.argv = ["trainwright", *asked["words"]]  # type: ignore[misc]
        main()
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        import traceback

        traceback.print_exc()
        code = 1
    finally:
        _count_points(str(asked["count_points"]))
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _arrange(asked: dict[str, object]) -> None:
    """What a test wants to be otherwise in this child."""
    from dataclasses import replace

    from trainwright.checkpoint.storages import checkpoint_files
    from trainwright.core import faultpoints
    from trainwright.report import page
    from trainwright.run.learners import network_learner

    os.environ.update(asked["environment"])  # type: ignore[call-overload]
    faultpoints.arm(str(asked["fault"]))
    if not asked["waits_for_disk"]:
        # A killed process loses nothing that it wrote: only a power cut asks for a sync.
        os.fsync = lambda descriptor: None  # type: ignore[assignment]
    if not asked["reports"]:
        page.write_report = _undrawn
    if asked["write_bytes"]:
        checkpoint_files._CHUNK_BYTES = asked["write_bytes"]  # type: ignore[assignment]
    if asked["dies_at"]:
        _die_at(asked["dies_at"], str(asked["dies_by"]))
    if asked["poison"]:
        _poison(asked["poison"])
    if asked["clock_jumps"]:
        _let_the_clock_jump()
    if asked["frozen_after"]:
        _freeze_after(*asked["frozen_after"])  # type: ignore[misc]
    if asked["notice"]:
        _notice_while_still(Path(str(asked["notice"])))
    if asked["journal"]:
        from journal import Journal

        journal = Journal(Path(str(asked["journal"])))
        fit = network_learner.fit
        network_learner.fit = lambda job: fit(replace(job, observers=(*job.observers, journal)))
        journal.watch_the_feed()


def _die_at(cursor: object, how: str) -> None:
    """The step that begins there cannot be made."""
    from trainwright.data.loading.feed import Feed

    give = Feed.next_step

    def deadly(feed: Feed) -> object:
        if feed.samples == cursor:
            if how == "raise":
                raise RuntimeError("these rows cannot be learned from")
            if how == "no memory":
                raise MemoryError
            if how == "hold":
                _hold_interpreter_on_rank_1()
                return give(feed)
            if how not in ("kill", "no memory"):
                _use_up(Path(how))
            os.kill(os.getpid(), signal.SIGKILL)
        return give(feed)

    Feed.next_step = deadly  # type: ignore[assignment,method-assign]


def _hold_interpreter_on_rank_1() -> None:
    """As a library that never gives the interpreter's lock back."""
    import ctypes

    if os.environ["RANK"] == "1":
        ctypes.PyDLL(None).sleep(10_000)


def _notice_while_still(path: Path) -> None:
    """The action `delay` makes a notice first."""
    from trainwright.core import faultpoints

    class Time:
        @staticmethod
        def sleep(seconds: float) -> None:
            # Whole at once: who looks often may look between the making and the writing.
            unseen = path.with_suffix(".tmp")
            unseen.write_text("maintenance")
            unseen.rename(path)
            time.sleep(seconds)

    faultpoints.time = Time  # type: ignore[assignment]


def _use_up(group: Path) -> None:
    """Join a control group with little memory, and take more of it."""
    (group / "cgroup.procs").write_text(str(os.getpid()))
    taken = bytearray(512 * 2**20)
    taken[::4096] = b"x" * len(taken[::4096])


def _let_the_clock_jump() -> None:
    """The date, not the count of seconds that durations are made of."""
    import random
    from datetime import UTC, datetime, timedelta

    from trainwright.tracking.clock import SystemClock

    draw = random.Random(os.getpid())

    def now(self: object) -> datetime:
        return datetime.now(UTC) + timedelta(days=draw.choice((-400, -1, 0, 1, 400)))

    SystemClock.now = now  # type: ignore[assignment,method-assign]


def _freeze_after(silent: float, still: float) -> None:
    from trainwright.distributed import heartbeat, rank_watch

    heartbeat.SILENT_SECONDS = rank_watch.SILENT_SECONDS = silent  # type: ignore[assignment]
    heartbeat.STILL_SECONDS = still  # type: ignore[assignment]


def _poison(cursor: object) -> None:
    """The training rows of one step become numbers that are none."""
    from trainwright.data.loading.feed import Feed

    give = Feed.next_step

    def poisoned(feed: Feed) -> object:
        begins = feed.samples
        step = give(feed)
        if begins == cursor:
            for batch in step.micro_batches:
                batch[0].fill_(float("nan"))
        return step

    Feed.next_step = poisoned  # type: ignore[assignment,method-assign]


def _undrawn(folder: RunFolder) -> Path:
    """The point is passed, and no page is drawn."""
    from trainwright.core.faultpoints import reached

    reached("report")
    return folder.report


def _count_points(path: str) -> None:
    """How often each fault point that is armed was reached."""
    from trainwright.core import faultpoints

    if path:
        counts = {fault.point: fault.times for fault in faultpoints._armed}
        Path(path).write_text(json.dumps(counts))


def _say(value: object) -> None:
    # `print` would reach the log of a child that is being made.
    os.write(1, (json.dumps(value) + "\n").encode())


if __name__ == "__main__":
    _serve()
