"""A registry in PostgreSQL."""

from __future__ import annotations

import pytest

from promotions import promote_at_once


@pytest.mark.timeout(300)
def test_promotions_of_many_processes_that_die(postgres: str) -> None:
    promote_at_once(postgres, processes=16, times=50, kills=4)
