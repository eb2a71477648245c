"""A process that ends by an exception loses nothing it wrote, so these tests need not wait for the
disk: the faults that do are in `tests/faults`."""

from __future__ import annotations

import os

import pytest


@pytest.fixture(autouse=True)
def disk_that_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
