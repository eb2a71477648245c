"""Conformance checks of notice sources, and a fake one."""

from __future__ import annotations

from collections.abc import Callable
from typing import final

import pytest

from trainwright.run.supervise.preemption import NoticeSource


@final
class FakeNotices:
    """Announces a given text, and fails while it is `down`."""

    def __init__(self) -> None:
        self.told = ""
        self.down = False

    def look(self) -> str:
        """The given text."""
        if self.down:
            raise OSError("down")
        return self.told


def check_notices(
    source: NoticeSource, announce: Callable[[], object], breakdown: Callable[[], object]
) -> None:
    """Empty at every poll until `announce` is called; from then on a printable text, whatever the
    notice contains (`announce` should include an escape sequence); OSError or ValueError after
    `breakdown`."""
    assert [source.look() for _ in range(3)] == [""] * 3
    announce()
    told = source.look()
    assert told.strip() == told != ""
    assert told.isprintable()
    assert source.look() == told
    breakdown()
    with pytest.raises((OSError, ValueError)):
        source.look()
