"""Preemption notices: the protocol of their sources, and the response to one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, final

from trainwright.contract.sections.resume import Resume
from trainwright.core.stop_flag import StopFlag

_MOST_SHOWN = 200
_UNKNOWN = "whether this machine will be taken away is not known"


class NoticeSource(Protocol):
    """Source of preemption notices. Polled from a thread."""

    def look(self) -> str:
        """Short description of a notice; empty without one.

        Waits at most seconds for a source that does not respond.

        Raises:
            OSError: it cannot be reached at the moment. ValueError: the response is invalid.
        """
        ...


@final
@dataclass(frozen=True, slots=True)
class NoNotices:
    """Machine that is never preempted."""

    def look(self) -> str:
        """Always empty."""
        return ""


@final
@dataclass(frozen=True, slots=True)
class NoticeFile:
    """File that is created when the machine is to be given up. Its first line is reported."""

    path: Path

    def look(self) -> str:
        """Notice if the file exists."""
        try:
            with self.path.open(encoding="utf-8", errors="replace") as stream:
                line = stream.readline(_MOST_SHOWN).strip()
        except FileNotFoundError:
            return ""
        told = f"the notice {self.path}{line and f': {line}'}"
        # Non-printable characters could control a terminal.
        return "".join(mark for mark in told if mark.isprintable()).strip()


def build_notices(section: Resume, folder: Path) -> NoticeSource:
    """Sources of the contract in `folder`, against which relative paths are resolved."""
    notice: Literal["off", "aws", "gcp", "azure"] | str = section.notice
    if notice == "off":
        return NoNotices()
    # Imported here: few clouds send notices.
    from trainwright.run.supervise.cloud_notices import Azure, Ec2, GoogleCloud

    match notice:
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
    """Polls for a notice, and records failures."""

    def __init__(self, source: NoticeSource, flag: StopFlag, wake: Callable[[], None]) -> None:
        self._source = source
        self._flag = flag
        self._wake = wake
        self._over = threading.Event()
        self._telling = threading.Lock()
        self._trouble = ""

    def look(self) -> bool:
        """Poll once, and set the stop flag on a notice; whether there was one."""
        try:
            told = self._source.look()
        except (OSError, ValueError) as error:
            self._trouble = str(error) or type(error).__name__
            return False
        self._trouble = ""
        with self._telling:
            # After the block the wake-up signal has no handler and would end the process.
            if told and not self._over.is_set():
                self._flag.raise_flag(told)
                self._wake()
        return bool(told)

    def watch(self, seconds: float) -> None:
        """Poll periodically, until there is a notice or it is `over`."""
        while not self._over.wait(seconds):
            if self.look():
                return

    def over(self) -> None:
        """Stop watching."""
        with self._telling:
            self._over.set()

    @property
    def trouble(self) -> str:
        """Why the last poll failed; empty if it did not."""
        return self._trouble and f"{_UNKNOWN}: {self._trouble}"


@contextmanager
def stop_on_notice(
    section: Resume, folder: Path, flag: StopFlag, wake: Callable[[], None]
) -> Iterator[NoticeWatch]:
    """Inside the block a notice ends the run gracefully, like SIGTERM. `folder` is the contract's.

    The first poll is made here, so that its result can be reported before training; all others by a
    daemon thread. `wake` is called where nothing checks the stop flag.
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
