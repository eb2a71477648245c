"""The policies of `training.guard`, from the contract to the exit code."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from command import NETWORK, command, inside, write_project  # noqa: E402
from trainwright.data.feed import Feed, StepBatches  # noqa: E402

pytestmark = pytest.mark.torch


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A project whose third and fourth step of the first epoch meet a number that is not one."""
    write_project(tmp_path)
    (tmp_path / "small.yaml").write_text(NETWORK)
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
    with inside(tmp_path):
        yield tmp_path


def events(kind: str) -> list[dict[str, object]]:
    lines = Path("runs/one/events.jsonl").read_text().splitlines()
    return [event for event in map(json.loads, lines) if event["event"] == kind]


def train(*settings: str) -> tuple[int, str]:
    words = [word for setting in settings for word in ("--set", setting)]
    ran = command("train", "small.yaml", "--run", "one", *words)
    return ran.code, ran.err


def test_by_default_the_run_ends_and_names_the_rows(project: Path) -> None:
    code, said = train()
    assert code == 14
    assert "loss nan" in said
    assert "training rows " in said
    assert "(epoch 0)" in said


def test_skip_goes_on(project: Path) -> None:
    code, said = train("training.guard.non_finite=skip")
    assert code in (0, 3), said
    dropped = events("step_dropped")
    assert [event["step"] for event in dropped] == [2, 2]
    assert [len(event["rows"]) for event in dropped] == [32, 32]
    assert {event["loss"] for event in dropped} == {"nan"}


def test_rollback_goes_back_within_its_budget(project: Path) -> None:
    code, said = train("training.guard.non_finite=rollback")
    assert code in (0, 3), said
    assert [(event["from_step"], event["step"]) for event in events("rolled_back")] == [
        (2, 0),
        (0, 0),
    ]


def test_a_budget_of_one_ends_it(project: Path) -> None:
    code, said = train("training.guard.non_finite=rollback", "training.guard.rollbacks=1")
    assert code == 14
    assert "The rollbacks (1) are spent" in said


def test_rollback_without_the_optimizer_is_refused(project: Path) -> None:
    code, said = train(
        "training.guard.spike=rollback", "training.checkpointing.save_optimizer_state=false"
    )
    assert code == 2
    assert "training.guard.spike: rollback needs checkpoints" in said


def test_the_default_gives_way_where_nothing_can_be_rolled_back(project: Path) -> None:
    code, said = train(
        "training.guard.non_finite=ignore", "training.checkpointing.save_optimizer_state=false"
    )
    assert code in (0, 3), said
