"""Padded documents in whole runs: resumed at every step, limited by tokens, tried at the widest."""

from __future__ import annotations

import io
import re
from itertools import accumulate
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

from canary import Killed
from contract_runs import Run, bits, train
from faults.tiers import also_slow
from trainwright.contract.sections.section import settled
from trainwright.run.compose.compose_feed import build_feed
from trainwright.run.prepare.prepare_run import Ready, make_ready
from trainwright.run.request import Request
from trainwright.run.screen import StageTimes, StreamScreen
from trainwright.run.trial import compute_trial as run_trial

pytestmark = pytest.mark.torch

PAGE = Path(__file__).resolve().parents[2] / "docs" / "guide" / "documents.md"
CONTRACT = """
name: notes
data: {kind: tokens, path: notes.txt, separator: "\\n", windows: padded, padding: {buckets: 4}}
model: {kind: gpt, layers: 1, heads: 2, width: 8, context: 32, dropout: 0.1}
training: {num_epochs: 2, batch_size: 10, gradient_accumulation_steps: 2, early_stopping: off,
           optimizer: {learning_rate: 0.01}, checkpointing: {save_every_n_steps: 1}}
tracking: {windows: {every_n_steps: 3}}
metric: {name: nats_per_token}
"""
STEPS = 18
CROSSING = 12
"""Steps of which the tenth begins the second epoch."""


@pytest.fixture
def contract(tmp_path: Path) -> Path:
    draw = np.random.default_rng(8)
    lines = ["".join(draw.choice(list("abcd "), draw.integers(2, 45))) for _ in range(150)]
    (tmp_path / "notes.txt").write_text("\n".join(lines) + "\n")
    (tmp_path / "contract.yaml").write_text(CONTRACT)
    return tmp_path / "contract.yaml"


def ready_for(contract: Path, *overrides: str) -> Ready:
    return make_ready(Request(contract, overrides), StageTimes(), StreamScreen(io.StringIO()))


@pytest.mark.extended
@pytest.mark.parametrize(
    "deaths",
    also_slow([[1, 6, CROSSING - 3, CROSSING - 2, CROSSING - 1]], [list(range(1, CROSSING))]),
    ids=["some", "every"],
)
def test_a_run_goes_on_from_every_step_to_the_same_bits(contract: Path, deaths: list[int]) -> None:
    """Some are the first, one inside, and those around the second epoch's beginning."""

    def found(run: Run) -> object:
        lines = run.folder.windows.read_text().splitlines()
        return bits(run), {k: v for k, v in run.signals.items() if "seconds" not in k}, len(lines)

    short = f"training.stop.max_steps={CROSSING}"
    whole = train(contract, "whole", short)
    assert (whole.ended.progress.step, whole.ended.progress.epoch) == (CROSSING, 1)
    wanted = found(whole)
    for death in deaths:
        with pytest.raises(Killed):
            train(contract, f"cut-{death}", short, dies_at=death)
        again = found(train(contract, f"cut-{death}", short))
        assert again[0] == wanted[0]  # type: ignore[index]
        for name, numbers in wanted[1].items():  # type: ignore[index]
            if name not in ("memory_bytes", "time"):
                assert again[1][name] == numbers, name  # type: ignore[index]
        assert again[2] == wanted[2]  # type: ignore[index]


@pytest.mark.extended
def test_a_limit_of_tokens_counts_them(contract: Path) -> None:
    ready = ready_for(contract)
    feed = build_feed(ready.plan.contract, ready.prepared, run_trial.torch.device("cpu"))
    counted = list(accumulate(feed.next_step().targets for _ in range(STEPS)))
    for at in (0, 9):
        for tokens, steps in ((counted[at], at + 1), (counted[at] + 1, at + 2)):
            limit = f"training.stop.max_tokens={tokens}"
            rarely = "training.checkpointing.save_every_n_steps=50"
            run = train(contract, f"{tokens}-tokens", limit, rarely)
            assert run.ended.progress.step == steps


def test_what_the_guide_shows_works(
    contract: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = PAGE.read_text(encoding="utf-8")
    shown = re.findall(r"```(yaml|python)\n(.*?)```", page, flags=re.DOTALL)
    assert [language for language, _ in shown] == ["yaml", "python"]
    words = contract.parent / "notes.txt"
    words.write_text(words.read_text().replace("\n", "\n\n"))
    contract.write_text(shown[0][1])
    run = train(contract, "shown")
    losses = run.signals["loss"]
    assert losses[-1] < losses[0]
    monkeypatch.chdir(contract.parent)
    exec(shown[1][1], {})
    assert re.fullmatch(r"torch.Size\(\[16, \d+\]\) \d+ \d+.\d% padding\n", capsys.readouterr().out)


def test_the_order_is_that_of_the_steps_however_they_are_divided(contract: Path) -> None:
    overrides = ("training.batch_size=5", "training.gradient_accumulation_steps=4")
    auto = "data.padding.buckets=auto"
    rows = []
    for more in ((), overrides, ("training.batch_size=20", overrides[1].replace("4", "1"))):
        plan = ready_for(contract, auto, *more).plan
        ready = ready_for(contract, auto, *more)
        feed = build_feed(plan.contract, ready.prepared, run_trial.torch.device("cpu"))
        rows.append(feed.order.at(1, 0, feed.rows).tolist())
    assert rows[0] == rows[1] == rows[2]


def test_ways_to_compute_are_tried_on_the_widest_batch(
    contract: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ready = ready_for(contract)
    shapes: list[tuple[int, ...]] = []
    monkeypatch.setattr(
        run_trial,
        "ModelTrial",
        lambda model, objective, batch, *rest: shapes.append(batch[0].shape),
    )
    run_trial.build_trial(ready.plan, ready.prepared)
    feed = build_feed(ready.plan.contract, ready.prepared, run_trial.torch.device("cpu"))
    widths = {batch[0].shape[1] for _ in range(9) for batch in feed.next_step().micro_batches}
    assert shapes == [(settled(ready.plan.contract.training.batch_size), 32)]
    assert len(widths) > 1
