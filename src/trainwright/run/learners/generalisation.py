"""Overfitting or underfitting of a finished training, from its recorded losses."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from statistics import fmean

from trainwright.core.files import Json
from trainwright.engine.health.overfitting import ValidationLoss, name_fit
from trainwright.run.run_context import RunContext
from trainwright.run.screen import labelled
from trainwright.tracking.event_log import read_events
from trainwright.tracking.events import Ended, Noted, Observers, number_from_json
from trainwright.tracking.run_folder import RunFolder
from trainwright.tracking.signals import read_signals


def note_fit(run: RunContext, ended: Ended) -> None:
    """Report what the losses show on the screen and in the events; once, also after a resume."""
    if ended.kind not in ("finished", "early", "budget"):
        return
    events = read_events(run.folder.events)
    signals = read_signals(run.folder.signals)
    at_its_end = ended.kind in ("finished", "budget")
    for fit in name_fit(pair_losses(events, signals), is_at_its_end=at_its_end):
        if any(event.get("kind") == fit.kind for event in events):
            continue
        run.screen.say(labelled("note", fit.message))
        noted = Noted(fit.kind, fit.message, {"step": ended.progress.step, **fit.numbers})
        Observers(run.observers, run.screen.say).observe(noted)


def read_history(folder: RunFolder) -> list[dict[str, float]]:
    """Validations of a training by its events, each with its step, by step; of a step that was
    validated again, as after a resume, the newest."""
    found = {
        int(event["step"]): {
            "step": float(event["step"]),
            **{name: number_from_json(value) for name, value in event["values"].items()},
        }
        for event in read_events(folder.events)
        if event.get("event") == "validated"
    }
    return [found[step] for step in sorted(found)]


def pair_losses(
    events: Sequence[Mapping[str, Json]], signals: Mapping[str, Sequence[float]]
) -> list[ValidationLoss]:
    """Each validation with the mean training loss since the previous one."""
    validated = {
        int(event["step"]): number_from_json(event["values"]["val_loss"])
        for event in events
        if event.get("event") == "validated" and "val_loss" in event["values"]
    }
    steps, losses = signals["step"], signals["loss"]
    found: list[ValidationLoss] = []
    begin = 0
    for step in sorted(validated):
        end = bisect_right(steps, step)
        between = [loss for loss in losses[begin:end] if math.isfinite(loss)]
        if between:
            found.append(ValidationLoss(step, validated[step], fmean(between)))
        begin = end
    return found
