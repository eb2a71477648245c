"""Saves in the background: the calls that hear of one, and copies that are made late."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

import pytest

from trainwright.checkpoint.background_save import BackgroundCheckpoints
from trainwright.checkpoint.states.copy_fence import Fence

NEXT_CALLS: Mapping[str, Callable[[BackgroundCheckpoints], object]] = {
    "settled": lambda store: store.settled(wait=False),
    "wait": lambda store: store.settled(wait=True),
    "taking": lambda store: store.taking().__enter__(),
    "newest_valid": lambda store: store.newest_valid(),
}
"""Each raises what was wrong with the save before it."""


def leave_copies_to_training(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread that saves copies nothing: all is left to whoever waits at the fence."""
    copy_all = Fence._copy_all

    def only_in_training(fence: Fence) -> None:
        if threading.current_thread().name != "save":
            copy_all(fence)

    monkeypatch.setattr(Fence, "_copy_all", only_in_training)
