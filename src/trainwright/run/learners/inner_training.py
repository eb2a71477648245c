"""A training inside a run: that of a fold, of another seed, of a refit or of a candidate."""

from __future__ import annotations

from dataclasses import replace

from trainwright.core.files import read_json
from trainwright.data.types import Prepared
from trainwright.predictor.bundle import MANIFEST, read_bundle, write_bundle
from trainwright.predictor.predictor import Predictor
from trainwright.run.folder.check_own_files import check_owner, describe_owner
from trainwright.run.folder.interruption import note_cut
from trainwright.run.learners.fit_result import check_ending
from trainwright.run.learners.learner import Learner
from trainwright.run.run_context import RunContext
from trainwright.tracking.event_log import EventLog
from trainwright.tracking.observers import Observers
from trainwright.tracking.run_folder import RunFolder


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
