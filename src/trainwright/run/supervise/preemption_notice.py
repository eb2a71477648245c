"""Whether this machine will be taken away: the seam, and what a notice does to a run."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, final

from trainwright.contract.resume import Resume
from trainwright.core.stop_flag import StopFlag
from trainwright.run.supervise.cloud_notices import Azure, Ec2, GoogleCloud

_MOST_SHOWN = 200
_UNKNOWN = "whether this machine will be taken away is not known"


class NoticeSource(Protocol):
    """Somebody who knows whether this machine will be taken away. Asked from a thread."""

    def look(self) -> str:
        """What is announced, in a few words; empty while nothing is.

        Waits seconds at most for one that does not answer.

        Raises:
            OSError: it cannot be asked just now. ValueError: the answer makes no sense.
        """
        ...


@final
@dataclass(frozen=True, slots=True)
class NoNotices:
    """A machine that nobody takes away."""

    def look(self) -> str:
        """Never anything."""
        return ""


@final
@dataclass(frozen=True, slots=True)
class NoticeFile:
    """A file that somebody makes when the machine is to be given back. Its first line is told."""

    path: Path

    def look(self) -> str:
        """That the file is there."""
        try:
            with self.path.open(encoding="utf-8", errors="replace") as stream:
                line = stream.readline(_MOST_SHOWN).strip()
        except FileNotFoundError:
            return ""
        told = f"the notice {self.path}{line and f': {line}'}"
        # What is not printable may steer a terminal.
        return "".join(mark for mark in told if mark.isprintable()).strip()


def build_notices(section: Resume, folder: Path) -> NoticeSource:
    """Whom the contract in `folder` says to ask; from there a path starts that is not absolute."""
    notice: Literal["off", "aws", "gcp", "azure"] | str = section.notice
    match notice:
        case "off":
            return NoNotices()
        case "aws":
            return Ec2()
        case "gcp":
            return GoogleCloud()
        case "azure":
            return Azure()
        case path:
            return NoticeFile(folder / path)


@final
class NoticeWatch:
    """Looks for a notice, and takes down what went wrong."""

    def __init__(self, source: NoticeSource, flag: StopFlag, wake: Callable[[], None]) -> None:
        self._source = source
        self._flag = flag
        self._wake = wake
        self._over = threading.Event()
        self._telling = threading.Lock()
        self._trouble = ""

    def look(self) -> bool:
        """Look once, and raise the flag at a notice; whether there was one."""
        try:
            told = self._source.look()
        except (OSError, ValueError) as error:
            self._trouble = str(error) or type(error).__name__
            return False
        self._trouble = ""
        with self._telling:
            # Once it is over nobody handles what wakes, and that would end the process.
            if told and not self._over.is_set():
                self._flag.raise_flag(told)
                self._wake()
        return bool(told)

    def watch(self, seconds: float) -> None:
        """Look every so many seconds, until there is a notice or it is `over`."""
        while not self._over.wait(seconds):
            if self.look():
                return

    def over(self) -> None:
        """No more notices."""
        with self._telling:
            self._over.set()

    @property
    def trouble(self) -> str:
        """Why the last look had no answer; empty where it had one."""
        return self._trouble and f"{_UNKNOWN}: {self._trouble}"


@contextmanager
def stop_on_notice(
    section: Resume, folder: Path, flag: StopFlag, wake: Callable[[], None]
) -> Iterator[NoticeWatch]:
    """Inside the block a notice ends the run in order, as SIGTERM does. `folder` is the contract's.

    The first look is made here, so that what it found can be said before the training; all others
    by a thread that ends with the process. `wake` is called where nobody watches the flag.
    """
    watch = NoticeWatch(build_notices(section, folder), flag, wake)
    if section.notice == "off":
        yield watch
        return
    if not watch.look():
        name, seconds = "notices", (section.notice_every_seconds,)
        threading.Thread(target=watch.watch, args=seconds, name=name, daemon=True).start()
    try:
        yield watch
    finally:
        watch.over()
