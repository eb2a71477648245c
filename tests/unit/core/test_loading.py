"""The collector of cycles rests while modules are loaded, and nothing is lost of it."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from trainwright.core import process as import_gc
from trainwright.core.process import lasting, loading


@pytest.fixture(autouse=True)
def thawed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As in a process of its own, which has frozen nothing."""
    monkeypatch.setattr(import_gc, "gc", gc)
    gc.unfreeze()
    yield
    gc.freeze()


class Knot:
    """Refers to itself: only the collector finds it."""

    def __init__(self) -> None:
        self.self = self


def test_it_rests_inside_and_works_behind() -> None:
    def fail() -> None:
        with loading():
            assert not gc.isenabled()
            raise ImportError

    with pytest.raises(ImportError):
        fail()
    assert gc.isenabled()


@pytest.mark.extended
def test_what_is_loaded_can_still_be_collected() -> None:
    with loading():
        knot = weakref.ref(Knot())
        made = gc.get_count()[0]
    assert gc.get_count()[0] < made + 100
    gc.collect()
    assert knot() is None


@pytest.mark.extended
def test_what_lasts_is_not_looked_through_until_the_end() -> None:
    with lasting():
        before = gc.get_freeze_count()
        with loading():
            knot = weakref.ref(Knot())
        assert gc.get_freeze_count() > before
        gc.collect()
        assert knot() is not None
    gc.collect()
    assert knot() is None
    assert gc.get_freeze_count() == 0


def test_a_collector_that_is_off_stays_off() -> None:
    gc.disable()
    try:
        with loading():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
