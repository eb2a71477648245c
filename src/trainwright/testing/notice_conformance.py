"""What every source of notices must do, and one that a test sets."""

from __future__ import annotations

from collections.abc import Callable
from typing import final

import pytest

from trainwright.run.supervise.preemption_notice import NoticeSource


@final
class FakeNotices:
    """Announces what it is told to, and cannot be asked while it is `down`."""

    def __init__(self) -> None:
        self.told = ""
        self.down = False

    def look(self) -> str:
        """What was set."""
        if self.down:
            raise OSError("down")
        return self.told


def check_notices(
    source: NoticeSource, announce: Callable[[], object], breakdown: Callable[[], object]
) -> None:
    """Quiet, as often as it is asked, until `announce` is called; from then on words for people,
    whatever stands in the notice: `announce` should put an escape sequence into it; OSError or
    ValueError behind `breakdown`."""
    assert [source.look() for _ in range(3)] == [""] * 3
    announce()
    told = source.look()
    assert told.strip() == told != ""
    assert told.isprintable()
    assert source.look() == told
    breakdown()
    with pytest.raises((OSError, ValueError)):
        source.look()
