"""Threads of the linear algebra library."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import polars as pl
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from trainwright.core.process import one_blas_thread
from trainwright.data.quality import run_checks
from trainwright.data.quality.examined_data import ExaminedData, examine
from trainwright.data.quality.finding import Finding


@contextmanager
def two_threads() -> Iterator[None]:
    np.ones((2, 2)) @ np.ones((2, 2))
    with threadpool_limits(2, user_api="blas"):
        yield


def threads() -> set[int]:
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


def test_inside_the_block_there_is_one_and_behind_it_as_many_as_before() -> None:
    with two_threads():
        with one_blas_thread():
            assert threads() == {1}
        assert threads() == {2}


def test_a_library_that_is_loaded_inside_has_one_too() -> None:
    code = """
import threadpoolctl
from trainwright.core.process import one_blas_thread
with one_blas_thread():
    import scipy.linalg
    print({pool["num_threads"] for pool in threadpoolctl.threadpool_info()})
"""
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "2"}
    words = (sys.executable, "-c", code)
    done = subprocess.run(words, capture_output=True, text=True, check=True, env=environment)
    assert done.stdout == "{1}\n"


def test_checks_of_data_run_in_one(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[set[int]] = []

    def check(data: ExaminedData) -> list[Finding]:
        assert len(data)
        seen.append(threads())
        return []

    monkeypatch.setattr(run_checks, "QUICK", (check,))
    with two_threads():
        run_checks.find_faults(examine(pl.DataFrame({"a": [1.0, 2.0]})), {}, "quick")
    assert seen == [{1}]
