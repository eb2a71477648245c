"""Safe names and paths: a strict pattern, and resolved paths that stay inside their root."""

from __future__ import annotations

import re
from pathlib import Path

from trainwright.core.errors import Mistake, Problem

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def check_name(name: str, what: str) -> str:
    """Return `name` unchanged if it is safe as one path component, else raise `Mistake`.

    Allowed are 1 to 64 of `A-Z a-z 0-9 . _ -`, the first a letter or digit: no separators, no
    hidden or temporary names, no control characters, nothing that file systems normalise
    differently.
    """
    if _NAME.fullmatch(name):
        return name
    raise Mistake(
        Problem(
            f"{what} is not a safe name",
            found=repr(name[:80]),
            expected="1 to 64 letters, digits, '.', '_' or '-', starting with a letter or digit",
            fix="choose a name such as 'income-1'",
        )
    )


def child_of(root: Path, name: str, what: str) -> Path:
    """The path of `name` directly inside `root`; a link that leads outside `root` is refused."""
    path = root / check_name(name, what)
    if path.resolve().parent != root.resolve():
        raise Mistake(
            Problem(
                f"{what} leads outside its folder",
                found=f"{path} -> {path.resolve()}",
                expected=f"a folder inside {root}",
                fix="remove the link or choose another name",
            )
        )
    return path
