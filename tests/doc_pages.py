"""Pages of the docs whose commands are run in order, beside the lines that they show."""

from __future__ import annotations

import re
from collections.abc import Callable

BLOCK = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)


def mask_digits(line: str) -> str:
    """A line without what differs between machines: digits, units of time and padding."""
    masked = re.sub(r"[\d,.]*\d", "#", line)
    durations = re.sub(r"#[hm]#[ms]\b", "#s", masked)
    stages = durations.replace(" · other #s", "")  # there if it took long enough to be shown
    return re.sub(r"\s+", " ", stages).strip()


def shown(text: str, said: list[str], masked: Callable[[str], str]) -> bool:
    """Whether the lines of a block were all said, in this order."""
    lines = iter([masked(line) for line in said])
    return all(masked(line) in lines for line in text.splitlines())
