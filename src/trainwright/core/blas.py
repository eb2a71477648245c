"""BLAS thread limit for numpy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread inside the block; also a decorator. Products of small matrices do
    not gain from more, and waiting threads spin: for seconds on busy cores."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1, user_api="blas"):
        yield
