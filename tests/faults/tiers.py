"""How much of each fault is tried: tier 0 in every run of the tests, tier 1 in `make faults`."""

from __future__ import annotations

import os

import pytest

TIER = int(os.environ.get("TRAINWRIGHT_TIER", "0"))

only_tier_1 = pytest.mark.skipif(TIER < 1, reason="of tier 1: make faults")


def times(every_day: int, release: int) -> int:
    """How often something is tried in this tier."""
    return release if TIER else every_day
