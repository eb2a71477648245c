"""The real data sets, for the tests that need them."""

from __future__ import annotations

from pathlib import Path

import pytest

from real import FOLDER


def real_data(name: str) -> Path:
    """The folder of a real data set; skips the test, with the reason, where it is missing."""
    folder = FOLDER / name
    if not folder.is_dir():
        pytest.skip(f"the real data set {name!r} is not beside the project")
    return folder
