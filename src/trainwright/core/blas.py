"""Threads of the linear algebra library behind numpy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Inside the block BLAS uses one thread; also a decorator. Products of small matrices gain
    nothing from more, and threads that wait for each other spin: on busy cores for seconds."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1, user_api="blas"):
        yield
