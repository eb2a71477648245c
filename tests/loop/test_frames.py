"""What a step of the default contract costs in Python: frames down to autograd, and calls."""

from __future__ import annotations

import inspect
import statistics
import sys
from pathlib import Path
from types import FrameType

import pytest

torch = pytest.importorskip("torch")

import trainwright  # noqa: E402
from command import with_layers, write_project  # noqa: E402
from contract_runs import train  # noqa: E402
from trainwright.data.loading.feed import Feed, StepBatches  # noqa: E402

pytestmark = pytest.mark.torch


def test_backward_is_four_frames_from_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every step of the run, those measured by telemetry included."""
    seen: list[tuple[str, ...]] = []
    engine = torch.autograd.Variable._execution_engine

    class Engine:
        def run_backward(self, *given: object, **how: object) -> object:
            names = [frame.function for frame in inspect.stack(0)[1:]]
            if "fit" in names:  # not a measurement before the training
                seen.append(tuple(names[: names.index("fit") + 1][::-1]))
            return engine.run_backward(*given, **how)

    monkeypatch.setattr(torch.autograd.graph.Variable, "_execution_engine", Engine())
    network = with_layers("[8]")
    run = train(write_project(tmp_path, network), "one", "training.stop.max_steps=60")
    assert run.ended.progress.step == 60
    assert len(seen) >= 60
    assert set(seen) == {("fit", "__call__", "_backward", "_engine_run_backward")}


def test_a_step_makes_few_python_calls_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Calls of the package's functions from one step to the next, in the middle of a window: a call
    is a fifth of a microsecond, of some 150 for the smallest networks."""
    counts: list[int] = []
    calls = 0
    root = str(Path(trainwright.__file__).parent)

    def count(frame: FrameType, event: str, _: object) -> None:
        nonlocal calls
        code = frame.f_code
        # Without comprehensions, which are no calls from Python 3.12 on.
        own = code.co_filename.startswith(root) and not code.co_name.startswith("<")
        calls += own and event == "call"

    next_step = Feed.next_step

    def count_until_next(feed: Feed) -> StepBatches:
        nonlocal calls
        sys.setprofile(None)
        counts.append(calls)
        calls = 0
        step = next_step(feed)
        sys.setprofile(count)
        return step

    monkeypatch.setattr(Feed, "next_step", count_until_next)
    try:
        train(write_project(tmp_path, with_layers("[8]")), "one", "training.stop.max_steps=60")
    finally:
        sys.setprofile(None)
    assert statistics.median(counts[10:40]) <= 79
