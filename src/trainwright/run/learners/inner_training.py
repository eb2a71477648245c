"""A training inside a run: of a fold, of another seed, of training and validation rows."""

from __future__ import annotations

from dataclasses import replace

from trainwright.contract.sections.training.training import Stop
from trainwright.core.files import read_json
from trainwright.data.types import Prepared
from trainwright.planner.estimate import scheduled_steps
from trainwright.planner.plan import Plan
from trainwright.predictor.bundle import MANIFEST, read_bundle, write_bundle
from trainwright.predictor.predictor import Predictor
from trainwright.run.folder.check_own_files import check_owner, describe_owner
from trainwright.run.folder.interruption import note_cut
from trainwright.run.learners.learner import Learner
from trainwright.run.library_fit import check_ending
from trainwright.run.run_context import RunContext
from trainwright.tracking.event_log import EventLog
from trainwright.tracking.events import Observers
from trainwright.tracking.run_folder import RunFolder


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


def inner_predictor(
    learner: Learner, prepared: Prepared, run: RunContext, folder: RunFolder
) -> tuple[Predictor, tuple[str, ...]]:
    """Its model: read if it exists, else trained and written."""
    identity = run.identity.of_part(folder.full_name)
    if (folder.bundle / MANIFEST).is_file():
        about = read_json(folder.bundle / MANIFEST)["about"]
        check_owner(folder, about, identity)
        return read_bundle(folder.bundle), tuple(about["warnings"])
    observer = Observers([EventLog(folder.events)], run.screen.say)
    if run.goes_on and folder.events.exists():
        observer.observe(note_cut(folder))
    observers = (observer, *run.observers)
    inner = replace(run, folder=folder, observers=observers, identity=identity)
    fitted = learner.fit(prepared, inner)
    check_ending(fitted, run.flag)
    kind = folder.path.parent.name.removesuffix("s")
    about = {
        **describe_owner(run.folder, identity),
        kind: folder.name,
        "warnings": list(fitted.warnings),
        "ended": fitted.kind,
        "length": fitted.length,
        **({"rounds": list(fitted.rounds)} if fitted.rounds else {}),
    }
    write_bundle(fitted.predictor, folder.bundle, about)
    return fitted.predictor, fitted.warnings
