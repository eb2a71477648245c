"""The time at which a run was good enough, told from its events."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest

from trainwright.core.files import Json
from trainwright.report.figures.time_to_target import time_validations, view_reaching
from trainwright.report.figures.training_figures import view_training
from trainwright.report.load_run import Contents
from trainwright.tracking.clock import show_time

START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def event(second: float, kind: str, step: int, **more: Json) -> dict[str, Json]:
    time = show_time(START + timedelta(seconds=second))
    return {"event": kind, "time": time, "step": step, **more}


def saved(second: float, step: int) -> dict[str, Json]:
    return event(second, "saved", step, checkpoint=f"step-{step}", seconds=0.5)


def validated(second: float, step: int, accuracy: float) -> dict[str, Json]:
    return event(second, "validated", step, seconds=1.0, values={"val_accuracy": accuracy})


WHOLE = [
    saved(0.5, 0),
    validated(10.0, 100, 0.80),
    saved(11.0, 100),
    validated(20.0, 200, 0.91),
    saved(21.0, 200),
    validated(30.0, 300, 0.90),
]


def contents(
    events: Sequence[dict[str, Json]], name: str = "accuracy", target: Json = 0.9
) -> Contents:
    plan = {"contract": {"metric": {"name": name, "target": target}}}
    return Contents("run", plan=plan, events=events)


def seconds_of(events: Sequence[dict[str, Json]]) -> list[float]:
    return [round(one.seconds, 3) for one in time_validations(events, "val_accuracy")]


def test_the_clock_starts_with_the_first_save_and_counts_everything() -> None:
    assert seconds_of(WHOLE) == [10.0, 20.0, 30.0]


def test_a_resumed_run_counts_no_pause_and_no_work_that_was_lost() -> None:
    pause = 5000.0
    events = [
        *WHOLE[:4],
        event(pause, "resumed", 100, checkpoint="step-100", rejected=[]),
        validated(pause + 9.0, 200, 0.91),
        validated(pause + 19.0, 300, 0.90),
    ]
    assert seconds_of(events) == [10.0, 20.0, 30.0]


def test_a_clock_that_is_set_back_stands_still() -> None:
    events = [*WHOLE[:3], validated(-3600.0, 200, 0.91), validated(-3590.0, 300, 0.9)]
    assert seconds_of(events) == [10.0, 11.0, 21.0]


def test_events_that_are_not_as_written_are_left_out() -> None:
    broken = [
        {"event": "validated", "time": "yesterday", "values": {"val_accuracy": 0.95}},
        {"event": "validated", "time": show_time(START), "values": {"val_accuracy": "nan"}},
        {"event": "validated", "time": show_time(START), "values": [1]},
        {"time": show_time(START)},
    ]
    assert time_validations(broken, "val_accuracy") == []


@pytest.mark.parametrize(
    ("target", "words"),
    [
        (
            0.9,
            "The target 0.9 (dashed) was first reached on the validation rows after 20s",
        ),
        (
            0.95,
            "The target 0.95 (dashed) was not reached on the validation rows; best 0.9100",
        ),
        ("baseline", "Best 0.9100 after 20s of training."),
    ],
)
def test_the_figure_says_when_the_target_was_reached(target: Json, words: str) -> None:
    (figure,) = view_reaching(contents(WHOLE, target=target))
    assert figure.title == "Time to accuracy"
    assert words in figure.caption


def test_of_a_loss_less_is_better() -> None:
    values = [(10.0, 2.1), (20.0, 1.7), (30.0, 1.9)]
    events = [
        event(second, "validated", 1, seconds=1.0, values={"val_nats_per_token": value})
        for second, value in values
    ]
    (figure,) = view_reaching(contents(events, "nats_per_token", 1.8))
    assert "first reached on the validation rows after 11s of training" in figure.caption
    (figure,) = view_reaching(contents(events, "nats_per_token", 1.5))
    assert "best 1.7000 after 11s" in figure.caption


@pytest.mark.parametrize("plan", [{}, {"contract": []}, {"contract": {"metric": {"name": "x"}}}])
def test_without_a_plan_there_is_no_figure(plan: Json) -> None:
    assert view_reaching(Contents("run", plan=plan, events=WHOLE)) == ()


def test_it_stands_among_the_curves_of_the_training() -> None:
    titles = [figure.title for figure in view_training(contents(WHOLE)).figures]
    assert titles == ["Time to accuracy", "Validation: val_accuracy"]
