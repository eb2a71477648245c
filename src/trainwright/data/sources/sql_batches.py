"""Cancellable batches of a query result.

The answer is a stream of the Arrow C interface (arrow.apache.org/docs/format/CStreamInterface): a
structure of functions. The one that gives the next batch is replaced by one that looks first.
"""

from __future__ import annotations

import ctypes
import errno
from typing import Any, Final, final

_Next: Final = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)


class _Stream(ctypes.Structure):
    _fields_ = (
        ("get_schema", ctypes.c_void_p),
        ("get_next", ctypes.c_void_p),
        ("get_last_error", ctypes.c_void_p),
        ("release", ctypes.c_void_p),
        ("private_data", ctypes.c_void_p),
    )


@final
class Batches:
    """Lets a stream give its batches until it is stopped."""

    def __init__(self) -> None:
        self._is_stopped = False
        self._kept: list[object] = []

    def of(self, handle: Any) -> Any:
        """The same stream of ADBC, which ends with an error once `stop` was called. It must not be
        read when this object is gone."""
        stream = _Stream.from_address(handle.address)
        given = _Next(stream.get_next)

        def following(this: int, batch: int) -> int:
            return errno.ECANCELED if self._is_stopped else int(given(this, batch))

        checked = _Next(following)
        self._kept += [given, checked]
        stream.get_next = ctypes.cast(checked, ctypes.c_void_p).value
        return handle

    def stop(self) -> None:
        """Give no further batch."""
        self._is_stopped = True
