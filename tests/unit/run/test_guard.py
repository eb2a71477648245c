"""The policies of `training.guard`, from the contract to the exit code."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

torch = pytest.importorskip("torch")

from command import NETWORK, events_of_one, inside, project_in, train_one  # noqa: E402
from trainwright.data.loading.feed import Feed, StepBatches  # noqa: E402
from trainwright.tracking.event_log import EventLog, last_step  # noqa: E402
from trainwright.tracking.events import Event, RolledBack  # noqa: E402

pytestmark = pytest.mark.torch


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A project whose third and fourth step of the first epoch meet a number that is not one."""
    gather = Feed._gather

    def poisoned(feed: Feed) -> None:
        gather(feed)
        feed._ready = [_poisoned(work) for work in feed._ready]

    def _poisoned(work: StepBatches) -> StepBatches:
        if work.epoch or (work.samples - 1) // 32 not in (2, 3):
            return work
        (x, *rest) = work.micro_batches[0]
        x = x.clone()
        x[0, 0] = float("nan")
        return work._replace(micro_batches=[(x, *rest)])

    monkeypatch.setattr(Feed, "_gather", poisoned)
    yield from project_in(tmp_path, NETWORK)


def test_by_default_the_run_ends_and_names_the_rows(project: Path) -> None:
    ran = train_one()
    assert ran.code == 14
    assert "loss nan" in ran.err
    assert "rows of the data (counted from 0) " in ran.err
    assert "(epoch 0)" in ran.err
    assert "lower training.optimizer.learning_rate" in ran.err
    assert "training.guard.non_finite: skip" in ran.err


def test_skip_goes_on(project: Path) -> None:
    ran = train_one("training.guard.non_finite=skip")
    assert ran.code in (0, 3), ran.err
    dropped = events_of_one("step_dropped")
    assert [event["step"] for event in dropped] == [2, 2]
    assert [len(event["rows"]) for event in dropped] == [32, 32]
    assert {event["loss"] for event in dropped} == {"nan"}


def test_the_rows_of_a_report_are_rows_of_the_file(tmp_path: Path) -> None:
    """Also where the split and the order of an epoch stand between the two."""
    huge = {17: 1e30, 201: -1e30}
    rows = pl.DataFrame({"x": [huge.get(row, row / 7) for row in range(300)]}).with_columns(
        y=pl.int_range(300) / 3,
        part=pl.Series(["train" if row % 5 < 3 else "test" for row in range(299)] + ["validation"]),
    )
    with inside(tmp_path):
        rows.write_csv("rows.csv")
        Path("small.yaml").write_text(
            "data: {path: rows.csv, target: y, split: {kind: column, column: part},"
            " features: {numeric: none}}\n"
            "task: regression\nmodel: {kind: mlp, hidden: [4], dropout: 0}\n"
            "training: {num_epochs: 1, batch_size: 1, guard: {non_finite: skip}}\n"
            "metric: {target: dummy, resamples: 100}\n"
        )
        ran = train_one()
        assert ran.code in (0, 3), ran.err
        dropped = events_of_one("step_dropped")
    assert sorted(event["rows"] for event in dropped) == [[17], [201]]
    assert "rows of the data (counted from 0) 17" in ran.err


def test_rollback_goes_back_within_its_budget(project: Path) -> None:
    ran = train_one("training.guard.non_finite=rollback")
    assert ran.code in (0, 3), ran.err
    assert [(event["from_step"], event["step"]) for event in events_of_one("rolled_back")] == [
        (2, 0),
        (0, 0),
    ]


def test_steps_are_cut_before_the_event_says_so(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sink reads events after lines, and discards lines before such an event."""
    observe, seen = EventLog.observe, []

    def observed(log: EventLog, event: Event) -> None:
        if isinstance(event, RolledBack):
            seen.append((event.from_step, last_step(Path("runs/one/signals.jsonl"))))
        observe(log, event)

    monkeypatch.setattr(EventLog, "observe", observed)
    monkeypatch.setattr("trainwright.run.compose.compose_job.WINDOW", 1)
    ran = train_one("training.guard.non_finite=rollback")
    assert ran.code in (0, 3), ran.err
    assert seen == [(2, 0), (0, 0)]


def test_a_budget_of_one_ends_it(project: Path) -> None:
    ran = train_one("training.guard.non_finite=rollback", "training.guard.rollbacks=1")
    assert ran.code == 14
    assert "The rollbacks (1) are spent" in ran.err


def test_rollback_without_the_optimizer_is_refused(project: Path) -> None:
    ran = train_one(
        "training.guard.spike=rollback", "training.checkpointing.save_optimizer_state=false"
    )
    assert ran.code == 2
    assert "training.guard.spike: rollback needs checkpoints" in ran.err


def test_the_default_gives_way_where_nothing_can_be_rolled_back(project: Path) -> None:
    ran = train_one(
        "training.guard.non_finite=ignore", "training.checkpointing.save_optimizer_state=false"
    )
    assert ran.code in (0, 3), ran.err
