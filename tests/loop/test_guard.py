"""Each injected fault ends as its policy says; rollbacks and skipped steps resume bit for bit."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")


from canary import STEPS, Canary, Killed, Setting, everything, start  # noqa: E402
from comparing import differences  # noqa: E402
from faults.tiers import each, in_test  # noqa: E402
from trainwright.checkpoint.state import Snapshot  # noqa: E402
from trainwright.checkpoint.store import Checkpoints, Loaded  # noqa: E402
from trainwright.contract.sections.training.training import Guard  # noqa: E402
from trainwright.core.progress import Progress  # noqa: E402
from trainwright.data.loading.feed import Feed, StepBatches  # noqa: E402
from trainwright.engine.guards.rollback import RollbackBackoff  # noqa: E402
from trainwright.engine.guards.step_guard import Drop, Keep, PolicyGuard, RollBack  # noqa: E402
from trainwright.engine.save_interval import FirstOf  # noqa: E402
from trainwright.engine.saving import SaveRequested  # noqa: E402
from trainwright.optim.lr_schedule import cosine_with_warmup  # noqa: E402
from trainwright.tracking.events import (  # noqa: E402
    Event,
    Resumed,
    RolledBack,
    Saved,
    Saving,
    StepDropped,
    StepKept,
    StepOutcome,
)

pytestmark = pytest.mark.torch

BAD_STEPS = (4, 5, 6)
"""Attempted steps, from 0, whose rows are poisoned in the runs below."""


def guarded(canary: Canary, window: int = 1, **policy: object) -> Canary:
    section = Guard(**{"learning_rate_steps": 3, **policy})
    caution = RollbackBackoff(
        canary.optimizer, section.learning_rate_factor, section.learning_rate_steps
    )
    guard = PolicyGuard(section, caution, canary.feed.rows_between, window=window)
    canary.change(
        guard=guard,
        knobs=(*canary.job.knobs, caution),
        state={**canary.job.state, "guard": guard, "caution": caution},
    )
    return canary


@dataclass
class PoisonedFeed:
    """A feed of which some steps of the first epoch hold one bad number, wherever it is moved."""

    feed: Feed
    steps: tuple[int, ...]
    value: float

    def next_step(self) -> StepBatches:
        work = self.feed.next_step()
        if work.epoch or (work.samples - 1) // 4 not in self.steps:
            return work
        (x, y), *rest = work.micro_batches
        x = x.clone()
        x[0, 2] = self.value
        return work._replace(micro_batches=[(x, y), *rest])

    def seek(self, samples: int) -> None:
        self.feed.seek(samples)


def poison(canary: Canary, steps: tuple[int, ...], value: float = math.nan) -> None:
    canary.change(feed=PoisonedFeed(canary.feed, steps, value))


def assert_finite(folder: Path) -> None:
    from safetensors.torch import load_file

    files = sorted(folder.glob("step-*/*.safetensors"))
    assert files
    for path in files:
        for name, tensor in load_file(path).items():
            assert torch.isfinite(tensor.double()).all(), (path, name)


def of_kind(canary: Canary, kind: type) -> list[Event]:
    return [event for event in canary.seen.events if isinstance(event, kind)]


def poisoned(folder: Path, steps: tuple[int, ...], value: float = math.nan, **policy: object):
    canary = guarded(
        start(folder / "run", Checkpoints(folder / "ckpt", 99), Setting(checkpoint_every=3)),
        **policy,
    )
    poison(canary, steps, value)
    return canary


@pytest.mark.row("F-27")
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_raise_names_the_rows(value: float, tmp_path: Path) -> None:
    canary = poisoned(tmp_path, (4,), value)
    ended = canary.fit()
    assert (ended.kind, ended.progress.step, ended.progress.attempted) == ("halted", 4, 4)
    rows = canary.feed.order.at(0, 16, 20).tolist()
    assert f"training rows {', '.join(map(str, rows))}" in ended.reason
    assert 'tw.Guard(non_finite="skip")' in ended.reason
    assert_finite(tmp_path / "ckpt")


@pytest.mark.row("F-27")
def test_skip_leaves_the_step_out_and_says_which_rows(tmp_path: Path) -> None:
    canary = poisoned(tmp_path, (3, 4), non_finite="skip")
    ended = canary.fit()
    assert ended.kind == "finished"
    assert (ended.progress.step, ended.progress.attempted) == (STEPS, STEPS + 2)
    first, second = of_kind(canary, StepDropped)
    assert first.rows == tuple(canary.feed.order.at(0, 12, 16).tolist())
    assert (first.progress.step, second.progress.step) == (3, 3)
    assert math.isnan(first.loss)
    assert math.isnan(first.gradient_norm)
    assert not of_kind(canary, RolledBack)
    assert_finite(tmp_path / "ckpt")


def test_the_schedule_does_not_count_a_skipped_step(tmp_path: Path) -> None:
    canary = poisoned(tmp_path, (3, 4), non_finite="skip")
    canary.fit()
    schedule = cosine_with_warmup(STEPS, 3, 0.01)
    rates = [event.outcome.learning_rate for event in of_kind(canary, StepKept)]
    assert rates == [0.05 * schedule(step) for step in range(STEPS)]


@pytest.mark.row("F-27")
def test_as_many_in_a_row_as_allowed_roll_back(tmp_path: Path) -> None:
    canary = poisoned(tmp_path, (3, 4, 5), non_finite="skip")
    ended = canary.fit()
    (back,) = of_kind(canary, RolledBack)
    assert (back.from_step, back.progress.step) == (3, 3)
    assert "3 steps in a row" in back.why
    assert (ended.kind, ended.progress.step, ended.progress.attempted) == (
        "finished",
        STEPS,
        STEPS + 3,
    )


def test_rollback_puts_the_checkpoint_back_leaves_the_rows_and_saves_at_once(
    tmp_path: Path,
) -> None:
    canary = poisoned(tmp_path, (5,), non_finite="rollback")
    found: list[object] = []

    def watch(event: Event) -> None:
        if isinstance(event, Saved) and event.progress.step == 3 and not found:
            found.append({k: v.clone() for k, v in canary.model.state_dict().items()})
        if isinstance(event, RolledBack):
            found.append({k: v.clone() for k, v in canary.model.state_dict().items()})
            newest = Checkpoints(tmp_path / "ckpt", 99).newest_valid()
            assert isinstance(newest, Loaded)
            assert newest.parts["progress"].values == event.progress._asdict()

    canary.on_event.append(watch)
    ended = canary.fit()
    (back,) = of_kind(canary, RolledBack)
    # Validations every two steps save too: the newest good state is that of step 4.
    assert (back.from_step, back.progress.step, back.progress.samples) == (5, 4, 22)
    assert ended.kind == "finished"
    assert ended.progress == back.progress._replace(
        step=STEPS, attempted=6 + STEPS - 4, samples=ended.progress.samples, epoch=2
    )
    assert_finite(tmp_path / "ckpt")
    steps = [event.progress.step for event in of_kind(canary, StepKept)]
    assert steps == [1, 2, 3, 4, 5, *range(5, STEPS + 1)]


def test_the_learning_rate_is_lower_for_a_while_after_it(tmp_path: Path) -> None:
    canary = poisoned(tmp_path, (5,), non_finite="rollback", learning_rate_factor=0.25)
    canary.fit()
    schedule = cosine_with_warmup(STEPS, 3, 0.01)
    rates = [event.outcome.learning_rate for event in of_kind(canary, StepKept)][5:]
    usual = [0.05 * schedule(step) for step in range(4, STEPS)]
    assert rates == [0.25 * rate for rate in usual[:3]] + usual[3:]


def test_a_spent_budget_halts_with_a_diagnosis(tmp_path: Path) -> None:
    canary = poisoned(tmp_path, (2, 3, 4), non_finite="rollback", rollbacks=2)
    ended = canary.fit()
    assert ended.kind == "halted"
    assert "The rollbacks (2) are spent" in ended.reason
    assert len(of_kind(canary, RolledBack)) == 2
    assert_finite(tmp_path / "ckpt")


@pytest.mark.parametrize(
    ("bad", "went_to"),
    [
        ((3, 5), [3, 2]),  # the state of step 3 was put back, and led there again
        ((3, 4, 5), [3, 2, 2]),  # what is older has gone by then
        ((0, 1), [0, 0]),  # there is nothing older
    ],
)
def test_a_rollback_that_is_due_again_soon_goes_back_further(
    bad: tuple[int, ...], went_to: list[int], tmp_path: Path
) -> None:
    canary = poisoned(tmp_path, bad, non_finite="rollback", rollbacks=3)
    assert canary.fit().kind == "finished"
    assert [back.progress.step for back in of_kind(canary, RolledBack)] == went_to
    assert_finite(tmp_path / "ckpt")


def test_steps_dropped_in_the_same_window_make_it_go_no_less_far(tmp_path: Path) -> None:
    """The state of step 100 is put back; a good step follows, and three bad ones in a row."""
    old_enough: set[int] = set()
    for window in (1, 4):
        canary = start(tmp_path / str(window), Checkpoints(tmp_path / f"{window}-ckpt", 1))
        guard = guarded(canary, window, non_finite="skip", non_finite_in_a_row=3).job.guard
        progress = Progress(step=100)
        for loss in (1.0, math.nan, math.nan, math.nan) * 2:
            outcome = StepOutcome(loss, 0.05, 1.0, 0.0, 0.0, 0.0, 1, progress.samples + 1, 0)
            match guard.judge(outcome):
                case Keep():
                    progress = progress.after(outcome)
                case Drop() as drop:
                    progress = progress.after(outcome)
                    progress = progress._replace(step=progress.step - len(drop.steps))
                case RollBack() as back:
                    before = progress.step + 1 - back.steps
                    old = before - back.further
                    progress = progress.after_dropped(outcome)._replace(step=100)
        assert back.further
        old_enough.add(old)
    assert old_enough == {99}


def test_ignore_drops_the_update_and_goes_on(tmp_path: Path) -> None:
    canary = poisoned(tmp_path, (1, 2, 3, 4), non_finite="ignore")
    ended = canary.fit()
    assert (ended.kind, ended.progress.attempted) == ("finished", STEPS + 4)
    assert len(of_kind(canary, StepDropped)) == 4


@pytest.mark.row("F-29")
@pytest.mark.parametrize("step", each(2, range(3, 9)))
@pytest.mark.parametrize("policy", ["skip", "rollback"])
def test_a_kill_around_a_bad_step_changes_nothing(policy: str, step: int, tmp_path: Path) -> None:
    whole = poisoned(tmp_path / "whole", BAD_STEPS[:2], non_finite=policy)
    expected = everything(whole, whole.fit())

    cut = poisoned(tmp_path / "cut", BAD_STEPS[:2], non_finite=policy)

    def kill(event: Event) -> None:
        attempted = getattr(getattr(event, "progress", None), "attempted", 0)
        if attempted == step and not isinstance(event, Saving):
            raise Killed

    cut.on_event.append(kill)
    with pytest.raises(Killed):
        cut.fit()
    resumed = guarded(
        start(
            tmp_path / "cut" / "run",
            Checkpoints(tmp_path / "cut" / "ckpt", 99),
            Setting(checkpoint_every=3),
            process=4,
        ),
        non_finite=policy,
    )
    poison(resumed, BAD_STEPS[:2])
    assert differences(everything(resumed, resumed.fit()), expected) == []
    assert of_kind(resumed, Resumed)


@pytest.mark.row("F-29")
def test_a_kill_while_a_rollback_is_saved_changes_nothing(tmp_path: Path) -> None:
    """Before the saved state stands the bad rows are met again; after it they are not."""
    whole = poisoned(tmp_path / "whole", (5,), non_finite="rollback")
    expected = everything(whole, whole.fit())
    for number, kind in enumerate((Saving, Saved, RolledBack)):
        folder = tmp_path / str(number)
        cut = poisoned(folder, (5,), non_finite="rollback")

        def kill(event: Event, kind: type = kind) -> None:
            if isinstance(event, kind) and event.progress.attempted == 6:
                raise Killed

        cut.on_event.append(kill)
        with pytest.raises(Killed):
            cut.fit()
        resumed = guarded(
            start(folder / "run", Checkpoints(folder / "ckpt", 99), Setting(checkpoint_every=3), 7),
            non_finite="rollback",
        )
        poison(resumed, (5,))
        assert differences(everything(resumed, resumed.fit()), expected) == []
        assert len(of_kind(resumed, RolledBack)) == (1 if kind is Saving else 0)


@pytest.mark.parametrize("keep", [1, 99])
@pytest.mark.parametrize("asked", ["SIGTERM", "save"])
@pytest.mark.parametrize("step", in_test(2, [1, 5], start=1))
def test_a_save_that_was_asked_for_is_not_where_a_rollback_goes(
    step: int, asked: str, keep: int, tmp_path: Path
) -> None:
    """Steps 1 and 5 are saved at neither by the validations nor by the interval."""

    def begin(name: str, process: int = 0) -> Canary:
        store = Checkpoints(
            tmp_path / name / "ckpt", keep, planned=lambda step: not (step % 2 and step % 3)
        )
        run = start(tmp_path / name / "run", store, Setting(checkpoint_every=3), process)
        poison(guarded(run, non_finite="rollback"), (5,))
        return run

    whole = begin("whole")
    expected = everything(whole, whole.fit())
    assert [back.progress.step for back in of_kind(whole, RolledBack)] == [4]

    cut = begin("cut")
    cut.change(checkpoint_every=FirstOf([cut.job.checkpoint_every, SaveRequested(cut.flag)]))

    def stop(event: Event) -> None:
        if isinstance(event, StepKept) and event.progress.attempted == step:
            if asked == "SIGTERM":
                cut.flag.raise_flag("SIGTERM")
            else:
                cut.flag.ask_to_save()

    cut.on_event.append(stop)
    ended = cut.fit()
    assert step in {saved.progress.step for saved in of_kind(cut, Saved)}
    if asked == "SIGTERM":
        assert ended.kind == "interrupted"
        cut = begin("cut", process=5)
        ended = cut.fit()
    assert differences(everything(cut, ended), expected) == []


@pytest.mark.parametrize("cut_at", each(3, range(2, 12)))
def test_a_guard_that_reads_late_resumes_to_the_same_bits(cut_at: int, tmp_path: Path) -> None:
    """As on a device: the numbers of five steps are judged together, whatever was saved between."""

    def begin(name: str, process: int = 0) -> Canary:
        store = Checkpoints(tmp_path / name / "ckpt", 99)
        canary = start(tmp_path / name / "run", store, Setting(checkpoint_every=1), process)
        guarded(canary, window=5, non_finite="skip")
        poison(canary, (3,))
        return canary

    whole = begin("whole")
    expected = everything(whole, whole.fit())
    assert len(of_kind(whole, StepDropped)) == 1
    assert expected["progress"].step == STEPS
    assert expected["progress"].attempted == STEPS + 1

    cut = begin("cut")

    def stop(event: Event) -> None:
        if isinstance(event, StepKept) and event.progress.attempted == cut_at:
            cut.flag.raise_flag("SIGTERM")

    cut.on_event.append(stop)
    if cut.fit().kind != "interrupted":
        pytest.skip("no step is kept there")
    resumed = begin("cut", process=5)
    assert differences(everything(resumed, resumed.fit()), expected) == []


class Bank:
    """Embeddings of rows that were seen, of a script's own: state of the training like any."""

    def __init__(self) -> None:
        self.sum = 0.0

    def snapshot(self) -> Snapshot:
        return Snapshot(values={"sum": self.sum})

    def restore(self, snapshot: Snapshot) -> None:
        self.sum = float(snapshot.values["sum"])


def test_what_a_rollback_leaves_alone_does_not_hang_on_names(tmp_path: Path) -> None:
    """A part of one's own called `memory` is rolled back, a guard called `watcher` is not."""
    canary = poisoned(tmp_path, (4,), non_finite="rollback", rollbacks=1, learning_rate_factor=0.5)
    names = {"guard": "watcher", "caution": "care"}
    parts = {names.get(name, name): part for name, part in canary.job.state.items()}
    bank, step = Bank(), canary.job.step
    seen: list[float] = []

    def banked(work: StepBatches) -> StepOutcome:
        seen.append(bank.sum)
        bank.sum += 1.0
        return step(work)

    canary.change(step=banked, state={**parts, "memory": bank})
    assert canary.fit().kind == "finished"
    assert len(of_kind(canary, RolledBack)) == 1
    # Attempt 4 is bad, and the checkpoint of step 4 comes back.
    assert seen[:6] == [0.0, 1.0, 2.0, 3.0, 4.0, 4.0]
    assert parts["watcher"].snapshot().values["rollbacks"] == 1
