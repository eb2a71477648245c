"""Garbage collection paused during imports."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_LASTING = ContextVar("_LASTING", default=False)


@contextmanager
def loading() -> Iterator[None]:
    """Pause the cyclic garbage collector inside the block, for imports: a library's objects are
    permanent, and would be scanned again and again while it loads.

    After the block all of them are in the oldest generation; inside `lasting` they are frozen.
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
    """Exclude existing objects, and those imported under `loading`, from garbage collection inside
    the block: for a process that keeps them to its end."""
    gc.freeze()
    before = _LASTING.set(True)
    try:
        yield
    finally:
        _LASTING.reset(before)
        gc.unfreeze()
