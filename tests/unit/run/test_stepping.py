"""How the numbers of a device are read; that needs no device."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from trainwright.engine.signals.telemetry import Windows  # noqa: E402
from trainwright.run.compose.compose_step import reader  # noqa: E402

pytestmark = pytest.mark.torch


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_numbers_come_in_their_order(device: str) -> None:
    read = reader(torch.device(device))
    assert read([1.5, torch.tensor(2.0), torch.tensor(3), 4.25]) == [1.5, 2.0, 3.0, 4.25]


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_before_the_first_step_there_is_nothing_to_read(device: str) -> None:
    """The checkpoint of step 0 holds windows without a step."""
    windows = Windows(50, [], read=reader(torch.device(device)))
    assert windows.snapshot().values == {"steps": [], "watches": {}}
