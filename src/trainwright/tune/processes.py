"""Where trials run: processes of this machine that start fresh, or tasks of a Ray cluster."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import socket
import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.context import ForkServerProcess
from typing import TypeAlias, final

from trainwright.contract.sections.run_settings import Ray
from trainwright.core.errors import Mistake, Problem
from trainwright.core.lazy_imports import need_package
from trainwright.tune.trial import TrialFiles, run_trial

_LOADED = ["lightgbm", "optuna", "trainwright.tune.trial_server"]
"""What the server that trials are forked from imports, besides what the driver has imported."""

_PR_SET_PDEATHSIG = 1
_MOST_SECONDS_TO_ANSWER = 10.0


@final
class LocalProcesses:
    """A fresh process for each trial, forked from a server that has imported what trainings need
    and has trained nothing: so a trial starts in milliseconds, and finds no threads or tensors of
    another. Trials die with this process."""

    def __init__(self) -> None:
        self._context = multiprocessing.get_context("forkserver")
        own = [name for name in sys.modules if name == "torch" or name.startswith("trainwright.")]
        self._context.set_forkserver_preload([*own, *_LOADED])

    def start(self, files: TrialFiles) -> LocalTrial:
        """Start the trial that the files ask for."""
        process = self._context.Process(
            target=_run_here, args=(os.getpid(), str(files.trials), files.number)
        )
        with _nameless_main():
            process.start()
        return LocalTrial(process)


@final
class LocalTrial:
    """A trial in a process of this machine."""

    def __init__(self, process: ForkServerProcess) -> None:
        self._process = process

    def is_running(self) -> bool:
        """Has its process not ended?"""
        return self._process.is_alive()

    def wait(self) -> str:
        """Wait for its end; why its process died, empty if it did not."""
        self._process.join()
        code = self._process.exitcode or 0
        return "" if not code else f"signal {-code}" if code < 0 else f"exit code {code}"

    def stop(self) -> None:
        """End it."""
        self._process.terminate()
        self._process.join()


def _run_here(driver: int, trials: str, number: int) -> None:
    """The server is the parent of a trial and dies with its own, the driver."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    try:
        os.kill(driver, 0)
    except ProcessLookupError:
        sys.exit(1)
    run_trial(trials, number)


@contextmanager
def _nameless_main() -> Iterator[None]:
    """Else the new process would first run the script of the user again, up to its guard."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = types.ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


@final
class RayTasks:
    """A task of a Ray cluster for each trial, in a process of its own, with its cores and GPUs. All
    machines of the cluster see the study's folder under the same path.

    Raises:
        MissingExtra: Ray is not installed. Mistake: no cluster answers at the address.
    """

    def __init__(self, section: Ray) -> None:
        need_package("ray", "ray", "tune.parallel.ray", "a search on a Ray cluster")
        # Ray sends statistics to its makers unless a variable says no before it starts.
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        import ray

        self._ray = ray
        host, _, port = section.ray.removeprefix("ray://").rpartition(":")
        try:
            if port.isdigit():
                # Ray itself tries for minutes.
                socket.create_connection((host, int(port)), _MOST_SECONDS_TO_ANSWER).close()
            if not ray.is_initialized():
                ray.init(address=section.ray, log_to_driver=False, configure_logging=False)
        except (OSError, RuntimeError, ValueError) as error:
            what, found = "no Ray cluster can be used there", f"{section.ray}: {error}"[:300]
            fix = "start a cluster there, or name another"
            raise Mistake(Problem(what, "tune.parallel.ray", found, fix=fix)) from None
        # A process for each, which is not started again by Ray: the driver says so when it does.
        self._task = ray.remote(
            num_cpus=section.cores, num_gpus=section.gpus, max_calls=1, max_retries=0
        )(run_trial)

    def start(self, files: TrialFiles) -> RayTrial:
        """Start the trial that the files ask for."""
        trials = str(files.trials.absolute())
        return RayTrial(self._ray, self._task.remote(trials, files.number))


@final
class RayTrial:
    """A trial in a task of Ray."""

    def __init__(self, ray: types.ModuleType, task: object) -> None:
        self._ray, self._task = ray, task

    def is_running(self) -> bool:
        """Has its process not ended?"""
        ended, _ = self._ray.wait([self._task], timeout=0)
        return not ended

    def wait(self) -> str:
        """Wait for its end; why its process died, empty if it did not."""
        try:
            self._ray.get(self._task)
        except self._ray.exceptions.RayError as error:
            return f"{type(error).__name__}: {str(error).strip().splitlines()[-1]}"
        return ""

    def stop(self) -> None:
        """End it."""
        self._ray.cancel(self._task, force=True)


TrialRunner: TypeAlias = LocalProcesses | RayTasks
RunningTrial: TypeAlias = LocalTrial | RayTrial
