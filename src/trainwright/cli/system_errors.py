"""Errors of the operating system that no stage has converted."""

from __future__ import annotations

import contextlib
import errno
import os
import sys

import typer

from trainwright.core.errors import Mistake, StorageFailed
from trainwright.core.formatting import show_safely

_USERS = frozenset({errno.ENAMETOOLONG, errno.ENOTDIR, errno.EISDIR, errno.ELOOP})
"""Operating-system errors that the user can fix by another path."""


def say_refused(error: OSError) -> int:
    """Report an operating-system error that no stage has converted; the exit code."""
    name = str(error.filename or "")
    shown = f"{name[:80]}...: " if len(name) > 80 else f"{name}: " if name else ""
    with contextlib.suppress(OSError):
        typer.echo(show_safely(f"{shown}{error.strerror or error}"), err=True)
    with contextlib.suppress(OSError):
        sys.stdout.flush()
    # What is left in the buffer of a full stdout would be written, and fail, again.
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return Mistake.exit_code if error.errno in _USERS else StorageFailed.exit_code
