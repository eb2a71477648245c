"""Python frames between `fit` and the autograd engine in a run with the default contract."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from command import with_layers, write_project  # noqa: E402
from contract_runs import train  # noqa: E402

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
