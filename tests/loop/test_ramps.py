"""Growing steps and windows in the loop: their learning rate, limits and resume."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from canary import STEPS, Canary, Killed, Setting, everything, start  # noqa: E402
from command import with_layers, write_project  # noqa: E402
from comparing import differences  # noqa: E402
from contract_runs import bits, train  # noqa: E402
from cuts import stepwise  # noqa: E402
from faults.tiers import each  # noqa: E402
from made_data import make_text  # noqa: E402
from stepwise import steps_that_differ  # noqa: E402
from trainwright.core.progress import Progress  # noqa: E402
from trainwright.data.loading.feed import Feed  # noqa: E402
from trainwright.data.sampling.step_ramps import Stages  # noqa: E402
from trainwright.engine.job import At  # noqa: E402
from trainwright.engine.stopping.stop_rules import SampleLimit, StepLimit  # noqa: E402
from trainwright.optim.build_optimizer import batch_scale  # noqa: E402
from trainwright.optim.schedule import BatchRate  # noqa: E402
from trainwright.testing.fakes import MemoryCheckpoints  # noqa: E402
from trainwright.tracking.events import Event, StepKept  # noqa: E402

pytestmark = pytest.mark.torch

RAMP = Stages((0, 7, 13), (2, 3, 4))
"""Of the canary's 22 rows: four steps of 2 (to row 8), two of 3 (to row 14), and two of 4."""
ENDS = (8, 14)


def growing(folder: Path, store: MemoryCheckpoints, process: int = 0, most: int = 40) -> Canary:
    canary = start(folder, store, Setting(), process)
    feed = Feed(canary.feed._loader.store._tensors, 3, seed=11, ramp=RAMP)
    assert feed.epoch_ends(2) == ENDS
    rate = BatchRate(canary.optimizer, RAMP.at, lambda ratio: batch_scale("sqrt", ratio), 4)
    limits = (StepLimit(ENDS[-1]), SampleLimit(most, "all rows"))
    canary.feed = feed
    canary.change(
        feed=feed,
        knobs=(*canary.job.knobs, rate),
        stop_rules=(*limits, *canary.job.stop_rules[1:]),
        validate_every=At(frozenset(ENDS)),
    )
    return canary


def stop_after(canary: Canary, step: int) -> None:
    def react(event: Event) -> None:
        if isinstance(event, StepKept) and event.progress.step == step:
            canary.flag.raise_flag("SIGTERM")

    canary.on_event.append(react)


def test_the_rate_of_a_step_goes_with_its_rows(tmp_path: Path) -> None:
    plain = start(tmp_path / "plain", MemoryCheckpoints())
    (schedule,) = plain.job.knobs
    canary = growing(tmp_path / "growing", MemoryCheckpoints())
    canary.fit()
    kept = [event for event in canary.seen.events if isinstance(event, StepKept)]
    nominal = [2] * 4 + [3] * 2 + [4] * 7
    assert [event.outcome.rows for event in kept] == nominal
    for event, rows in zip(kept, nominal, strict=True):
        schedule(Progress(step=event.progress.step - 1))
        set_rate = plain.optimizer.param_groups[0]["lr"]
        assert event.outcome.learning_rate == pytest.approx(set_rate * math.sqrt(rows / 4))


def test_every_step_follows_from_the_checkpoint_before_it(tmp_path: Path) -> None:
    def begin(folder: Path, store: MemoryCheckpoints, setting: Setting, process: int) -> Canary:
        return growing(folder, store, process=process)

    assert steps_that_differ(stepwise(tmp_path, Setting(), begin=begin)) == {}


@pytest.mark.parametrize("cut", [2, 5, 11])
def test_cut_it_ends_with_the_same_bits(cut: int, tmp_path: Path) -> None:
    """Ramp x accumulation x limit in rows x resume; the limit lies within the second epoch."""
    whole = growing(tmp_path / "whole", MemoryCheckpoints())
    ended = whole.fit()
    assert ended.reason == "all rows"
    assert ended.progress.samples == 42
    expected = everything(whole, ended)
    store = MemoryCheckpoints()
    first = growing(tmp_path / "cut", store)
    stop_after(first, cut)
    first.fit()
    second = growing(tmp_path / "cut", store, process=3)
    assert differences(everything(second, second.fit()), expected) == []


def test_the_canary_without_a_ramp_ends_elsewhere(tmp_path: Path) -> None:
    plain = start(tmp_path, MemoryCheckpoints())
    assert plain.fit().progress.step == STEPS != ENDS[-1]


NETWORK = (
    with_layers("[16, 8]")
    + "training:\n  num_epochs: 4\n  batch_size: 16\n  effective_batch_size: 64\n"
    + "  early_stopping: off\n"
)
TEXT = """
data: {kind: tokens, path: text.txt}
model: {kind: gpt, layers: 1, heads: 2, width: 16, context: 16, dropout: 0.1}
training: {num_epochs: 3, batch_size: 16, early_stopping: off, optimizer: {learning_rate: 0.01}}
metric: {target: dummy}
"""


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    return write_project(tmp_path, NETWORK)


@pytest.fixture
def text(tmp_path: Path) -> Path:
    make_text(tmp_path / "text.txt")
    (tmp_path / "text.yaml").write_text(TEXT)
    return tmp_path / "text.yaml"


@pytest.mark.parametrize("growth", ["doubling", "linear"])
@pytest.mark.parametrize("ratio", [0.1, 0.37, 1.0])
def test_the_plan_knows_the_steps_and_the_schedule_ends_at_its_floor(
    ratio: float, growth: str, rows: Path
) -> None:
    ramp = f"training.ramps.batch={{start: 6, growth: {growth}, ratio: {ratio}}}"
    run = train(rows, "one", ramp, "training.scheduler={name: cosine, min_lr_ratio: 0.1}")
    estimate, rates = run.ready.plan.estimate, run.signals["learning_rate"]
    assert estimate.steps == len(rates) == run.ended.progress.step
    assert estimate.steps > 4 * estimate.steps_per_epoch
    assert rates[0] == pytest.approx(0.001)
    assert rates[-1] == min(rates) == pytest.approx(0.0001)
    epochs = run.signals["epoch"]
    ends = {step for step in range(1, len(rates)) if epochs[step - 1] != epochs[step]}
    assert run.job.validate_every == At(frozenset({*ends, len(rates)}))


def test_a_scaled_rate_follows_the_rows(rows: Path) -> None:
    run = train(
        rows,
        "one",
        "training.ramps.batch={start: 16, samples: 128}",
        "training.optimizer={learning_rate: 0.001, batch_scaling: linear, base_batch_size: 32}",
        "training.scheduler={name: constant}",
    )
    # 64 rows in steps of 16, then 64 in steps of 32, then steps of 64: rate x rows / 32.
    rates = run.signals["learning_rate"]
    assert rates[:7] == pytest.approx([0.0005] * 4 + [0.001] * 2 + [0.002])
    assert set(rates[6:]) == {rates[6]}


def test_a_limit_in_tokens_ends_the_run_and_may_end_the_schedule(text: Path) -> None:
    tokens = "training.stop.max_tokens=5000"
    limited = train(text, "limited", tokens)
    assert (limited.ended.kind, limited.ended.reason) == ("finished", "all 5,000 tokens")
    assert 5000 <= limited.ended.progress.samples * 16 < 5000 + 16 * 16
    begun = limited.signals["learning_rate"]
    assert begun[-1] > 0.5 * max(begun)
    spanning = train(text, "spanning", tokens, "training.stop.schedule_spans=limits")
    assert spanning.ended == limited.ended
    whole = spanning.signals["learning_rate"]
    assert whole[-1] == pytest.approx(0.01 * max(whole), rel=1e-2)


@pytest.mark.extended
def test_short_windows_change_what_is_seen_and_not_how_much(text: Path) -> None:
    short = train(text, "short", "training.ramps.sequence={start: 4, ratio: 0.5}")
    plain = train(text, "plain")
    assert short.ended.progress == plain.ended.progress
    assert short.signals["loss"][0] != plain.signals["loss"][0]


@pytest.mark.parametrize("death", each(3, [3, 9, 30], start=1))
def test_killed_and_resumed_both_ramps_give_the_same_bits(death: int, text: Path) -> None:
    """Both ramps x accumulation x limit in tokens x resume, from the contract."""
    settings = (
        "training.ramps={batch: {start: 4, ratio: 0.4}, sequence: {start: 2, ratio: 0.6}}",
        "training.stop.max_tokens=9000",
        "training.batch_size=6",
        "training.effective_batch_size=12",
        "training.checkpointing.save_every_n_steps=4",
    )
    whole = train(text, "whole", *settings)
    assert whole.ended.reason == "all 9,000 tokens"
    with pytest.raises(Killed):
        train(text, "cut", *settings, dies_at=death)
    cut = train(text, "cut", *settings)
    assert cut.ended == whole.ended
    for name in ("loss", "learning_rate", "gradient_norm"):
        assert cut.signals[name] == whole.signals[name]
    assert bits(cut) == bits(whole)
