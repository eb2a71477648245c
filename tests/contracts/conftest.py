"""Each kind of contract comes to a whole page."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="module", autouse=True)
def with_whole_pages(whole_pages: None) -> None:
    """Of every test in this folder."""
