"""`train --restart`: supervisor that restarts a crashed run, with a limit.

The run is a forked process, so it may die for any reason. A mistake, a verdict, a signal and every
other regular ending are final; only a death or an unexpected error is not.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import final

from trainwright.run.supervise.crash_diagnosis import describe_death, describe_loop
from trainwright.run.supervise.shared_progress import Position, SharedPosition

_SAME_STEP = 3
_FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)
_WAITED_FOR = {signal.SIGCHLD, *_FORWARDED}
_FROM_THE_TERMINAL = 0x80  # SI_KERNEL: the terminal has sent it to the run as well
_UNEXPECTED = 1


@final
@dataclass(frozen=True)
class Attempt:
    """One start of a run: its name, whether it resumes, and where its progress goes. An empty `run`
    lets the run choose its name."""

    run: str
    resume: bool
    position: SharedPosition


def supervise(restarts: int, run: str, resume: bool, say: Callable[[str], None]) -> Attempt:
    """Fork, and return in the new process with its attempt.

    The calling process never returns: it forwards signals, starts a new attempt after a crash, at
    most `restarts` times and never after three crashes at the same step, and exits with the code of
    the last attempt.
    """
    crashes: list[Position] = []
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _WAITED_FOR)
    attempt = Attempt(run, resume, SharedPosition())
    while True:
        # Neither torch nor a thread of ours is in this process: each attempt starts fresh.
        child = os.fork()
        if child == 0:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            return attempt
        code, was_asked = _wait(child)
        if was_asked or not _is_crash(code):
            sys.exit(code if code >= 0 else 128 - code)
        folder, position = attempt.position.folder, attempt.position.position
        crashes.append(position)
        why = f"signal {-code}" if code < 0 else "an unexpected error"
        when = describe_death(Path(folder) if folder else None, position)
        say(f"the run died of {why} {when} ({len(crashes)} of {restarts + 1})")
        last = crashes[-_SAME_STEP:]
        if folder and len(last) == _SAME_STEP and len({one.progress.step for one in last}) == 1:
            # Right after a resume the size of a step is not known yet.
            known = max(last, key=lambda one: one.rows)
            say(describe_loop(Path(folder), known))
            sys.exit(_UNEXPECTED)
        if len(crashes) > restarts:
            say(f"{restarts} restarts are used up")
            sys.exit(_UNEXPECTED)
        attempt = _next(attempt, folder)


def _next(attempt: Attempt, folder: str) -> Attempt:
    """Resume the run if it got as far as having a folder."""
    if not folder:
        return Attempt(attempt.run, attempt.resume, SharedPosition())
    return Attempt(Path(folder).name, True, SharedPosition())


def _is_crash(code: int) -> bool:
    return code < 0 or code == _UNEXPECTED


def _wait(child: int) -> tuple[int, bool]:
    """How the run ended, and whether that was requested. Signals are forwarded meanwhile."""
    was_asked = False
    while True:
        got = signal.sigwaitinfo(_WAITED_FOR)
        if got.si_signo == signal.SIGCHLD:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                return os.waitstatus_to_exitcode(status), was_asked
            continue
        was_asked = was_asked or got.si_signo != signal.SIGUSR1
        if got.si_code != _FROM_THE_TERMINAL:
            os.kill(child, got.si_signo)
