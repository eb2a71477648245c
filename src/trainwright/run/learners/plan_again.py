"""Plan of a second training, on training and validation rows."""

from __future__ import annotations

from dataclasses import replace

from trainwright.contract.sections.training.stop import Stop
from trainwright.planner.estimate import scheduled_steps
from trainwright.planner.plan import Plan


def plan_again_with(plan: Plan, length: int, train_rows: int) -> Plan:
    """Plan of the second training: as many rounds or updates, on the schedule of the first, which
    had so many `train_rows`; nothing is fitted to validation rows."""
    contract, model = plan.contract, plan.contract.model
    changes: dict[str, object] = {"calibration": "none", "threshold": 0.5}
    if limit := model.traits.rounds:
        model = model.model_copy(update={limit: length})
    if model.is_loop_trained:
        spans = scheduled_steps(contract, train_rows)
        stop = Stop(max_steps=length, schedule_spans=spans)
        changes |= {"early_stopping": "off", "stop": stop}
    training = contract.training.model_copy(update=changes)
    updated = contract.model_copy(update={"model": model, "training": training})
    return replace(plan, contract=updated)
