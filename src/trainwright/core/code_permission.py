"""Permission to run code that a contract names. It belongs to a command or a call, never to the
contract."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Literal

_FOLDERS: ContextVar[Literal["refused"] | tuple[Path, ...]] = ContextVar("code", default="refused")


@contextmanager
def code_allowed(is_allowed: bool) -> Iterator[None]:
    """Allow such code inside the block, or not."""
    token = _FOLDERS.set((Path.cwd(),) if is_allowed else "refused")
    try:
        yield
    finally:
        _FOLDERS.reset(token)


def is_code_allowed() -> bool:
    """May the code that a contract names be run?"""
    return _FOLDERS.get() != "refused"


def permission_words() -> tuple[str, ...]:
    """What a command that follows this one is given, so that it may run the code too."""
    return ("--allow-code",) if is_code_allowed() else ()


def code_folders() -> tuple[Path, ...]:
    """Folders in which such code is looked for, beside the path of Python: those of contracts, and
    the working directory."""
    folders = _FOLDERS.get()
    return () if folders == "refused" else folders


def look_for_code_in(folder: Path) -> None:
    """Look for it in a folder, before all others; without the permission nothing is looked for."""
    folders = _FOLDERS.get()
    if folders != "refused":
        _FOLDERS.set((folder, *(one for one in folders if one != folder)))
