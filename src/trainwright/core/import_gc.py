"""Loading libraries without looking through what they consist of."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_LASTING = ContextVar("_LASTING", default=False)


@contextmanager
def loading() -> Iterator[None]:
    """Inside the block modules are loaded, and Python's collector of cycles rests: what a library
    consists of stays, and would be looked through for garbage again and again while it grows.

    Behind the block all of that counts as old; inside `lasting` it is left out for good.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if not _LASTING.get():
            gc.unfreeze()
        gc.enable()


@contextmanager
def lasting() -> Iterator[None]:
    """Inside the block nobody looks for garbage in what was there before, nor in what is loaded by
    `loading`: for a process that keeps all of it to its end."""
    gc.freeze()
    before = _LASTING.set(True)
    try:
        yield
    finally:
        _LASTING.reset(before)
        gc.unfreeze()
