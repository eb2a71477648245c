"""What holds for every test. The environment is set before anything imports torch or matplotlib."""

from __future__ import annotations

import functools
import gc
import importlib.util
import os
import tempfile
from collections.abc import Callable, Generator, Iterator
from types import SimpleNamespace

import pytest
import pytest_timeout
import typer
from hypothesis import settings

from deadlines import within
from faults.tiers import TIER, times
from faults.zygote import Zygote
from trainwright.core import process as import_gc
from trainwright.core.faultpoints import arm
from trainwright.report.figures import svg_figure

# One thread a worker: results are the same bits on every machine, and two workers share two cores.
os.environ["OMP_NUM_THREADS"] = "1"
# Processes with more threads leave their core to others while they wait.
os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
os.environ["MPLBACKEND"] = "Agg"
# What tests read is kept by them alone, and by all processes of a run together.
_CACHE = tempfile.TemporaryDirectory(prefix="trainwright-tests-")
os.environ.setdefault("TRAINWRIGHT_CACHE", _CACHE.name)

# No test asserts a time, and a run that fails must fail again.
settings.register_profile("project", deadline=None, derandomize=True, max_examples=times(30, 100))
settings.load_profile("project")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """See faults/tiers.py."""
    skip = pytest.mark.skip(reason="slow: make test-all")
    for item in [] if TIER else items:
        if item.get_closest_marker("slow"):
            item.add_marker(skip)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is imported stays: no search for garbage walks through it, neither now nor later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: pytest_timeout.Settings) -> object:
    """Every deadline is that of a quiet machine, times how busy this one is."""
    scaled = settings._replace(timeout=within(settings.timeout))
    return pytest_timeout.pytest_timeout_set_timer(item, scaled)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Write into the results which rows of the fault matrix a test stands for."""
    rows = {row for mark in item.iter_markers("row") for row in mark.args}
    item.user_properties.extend(("row", row) for row in sorted(rows))


def pytest_runtest_teardown() -> None:
    """A fault waits for its point no longer than the test that armed it runs."""
    arm("")


@pytest.fixture(scope="session", autouse=True)
def disk_that_is_not_waited_for() -> Iterator[None]:
    """A process that ends by an exception loses nothing it wrote, so tests need not wait for the
    disk: the faults that do are in `tests/faults`, in processes of their own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", os.fstat)  # fails too where nothing is open
        yield


DRAWN = svg_figure._drawn


@pytest.fixture(scope="session", autouse=True)
def pages_without_figures() -> Iterator[None]:
    """A run writes its page, but draws nothing: that takes longer than all the rest of a small run.
    What is about pages asks for `whole_pages`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(svg_figure, "_drawn", lambda panel: "<svg></svg>")
        yield


@pytest.fixture(scope="module")
def whole_pages() -> Iterator[None]:
    """Pages with every figure, as a user gets them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(svg_figure, "_drawn", DRAWN)
        yield


@pytest.fixture(scope="session", autouse=True)
def imports_that_stay_frozen() -> Iterator[None]:
    """The command thaws what it froze for its process, which ends then. This one goes on, and each
    search for garbage would walk through all that the tests have imported."""
    keeps = SimpleNamespace(freeze=lambda: None, unfreeze=lambda: None)
    keeps.isenabled, keeps.disable, keeps.enable = gc.isenabled, gc.disable, gc.enable
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(import_gc, "gc", keeps)
        yield


@pytest.fixture
def no_search_for_garbage(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pass whose memory ran out searches for garbage, and what all tests hold takes longer to
    walk through than a step."""
    from trainwright.engine.execution import oom

    monkeypatch.setattr(oom, "gc", SimpleNamespace(collect=lambda: 0))


@pytest.fixture(scope="session", autouse=True)
def verbs_that_are_read_once() -> Iterator[None]:
    """A process of the command reads the tree of its verbs once, and tests call it many times."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typer.main, "get_command", functools.cache(typer.main.get_command))
        yield


@pytest.fixture(scope="session")
def zygote() -> Iterator[Zygote]:
    """Starts processes of the command that need not import anything."""
    pytest.importorskip("torch")
    with Zygote() as running:
        yield running


@pytest.fixture
def figure(record_property: Callable[[str, object], None]) -> Callable[..., None]:
    """Say what was counted: `figure(kills=20, most_steps_lost=5)`. Over the tests of a row counts
    are added up, and of those that begin with `most_` the largest stands."""

    def record(**counts: float) -> None:
        for name, count in counts.items():
            record_property("figure", f"{name}={count}")

    return record


SHAPED = ["trainwright.model.table_columns"]
"""The modules whose signatures give the shapes of arrays; in tests every call is checked."""

if importlib.util.find_spec("torch") is not None:
    from jaxtyping import install_import_hook

    install_import_hook(SHAPED, "beartype.beartype")
