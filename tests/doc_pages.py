"""Pages of the docs whose commands are run in order, beside the lines that they show."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

BLOCK = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)


def mask_digits(line: str) -> str:
    """A line without what differs between machines: digits, units of time and padding."""
    masked = re.sub(r"[\d,.]*\d", "#", line)
    durations = re.sub(r"#[hm]#[ms]\b", "#s", masked)
    stages = durations.replace(" · other #s", "")  # there if it took long enough to be shown
    return re.sub(r"\s+", " ", stages).strip()


def mask_verdicts(line: str) -> str:
    """As `mask_digits`, and without a verdict, the sign of a difference, and the unit of a size: of
    a run that is smaller than that of the page."""
    line = re.sub("undecided|missed|met", "@", mask_digits(line), flags=re.IGNORECASE)
    return re.sub(r"[KM]iB", "B", re.sub(r"[+-]#", "#", line))


def smaller(words: list[str]) -> list[str]:
    """The words of a command; a training has few trees and few resamples."""
    if words[1] != "train":
        return words
    contract = Path(words[2]).read_text(encoding="utf-8")
    settings = ["metric.resamples=100"]
    kinds = [word for word in words if word.startswith("model.kind=")]
    if kinds == ["model.kind=boosting"] or (not kinds and "kind: boosting" in contract):
        settings.append("model.max_trees=30")
    return [*words, *(word for setting in settings for word in ("--set", setting))]


def shown(text: str, said: list[str], masked: Callable[[str], str]) -> bool:
    """Whether the lines of a block were all said, in this order."""
    lines = iter([masked(line) for line in said])
    return all(masked(line) in lines for line in text.splitlines())
