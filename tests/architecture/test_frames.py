"""Between the verb and the backward pass stand few frames, each with a name of the design."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import trainwright  # noqa: E402
from command import NETWORK, command, project_in  # noqa: E402

pytestmark = pytest.mark.torch

PACKAGE = Path(trainwright.__file__).parent

TO_THE_LOOP = (
    ("cli/main.py", "train"),
    ("run/train.py", "train"),
    ("run/train.py", "fit"),
    ("run/learners/network_learner.py", "fit"),
    ("engine/loop.py", "fit"),
)

MOST_FRAMES, MOST_FILES = 7, 5
"""Of them four in three files before the loop."""


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    yield from project_in(tmp_path)


def test_from_the_verb_to_the_backward_pass(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stacks: set[tuple[tuple[str, str], ...]] = set()
    engine = torch.autograd.Variable._execution_engine

    class Engine:
        def run_backward(self, *given: Any, **options: Any) -> Any:
            note()
            return engine.run_backward(*given, **options)

    def note() -> None:
        frames = [
            (Path(frame.filename).relative_to(PACKAGE).as_posix(), frame.name)
            for frame in traceback.extract_stack()
            if Path(frame.filename).is_relative_to(PACKAGE)
        ]
        if TO_THE_LOOP[-1] in frames:
            stacks.add(tuple(frames[frames.index(TO_THE_LOOP[0]) :]))

    monkeypatch.setattr(torch.autograd.graph.Variable, "_execution_engine", Engine())
    (project / "small.yaml").write_text(NETWORK)
    assert command("train", "small.yaml").code in (0, 3)
    assert {stack[: len(TO_THE_LOOP)] for stack in stacks} == {TO_THE_LOOP}
    print(*(f"{len(stack)} frames: {stack}" for stack in stacks), sep="\n")
    most = max(stacks, key=len)
    assert len(most) <= MOST_FRAMES, most
    assert len({file for file, _ in most}) <= MOST_FILES, most
