"""The trials of a study for other tools: a table, and Optuna's journal."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import TYPE_CHECKING

from trainwright.contract.sections.metric import Direction
from trainwright.core.files import write_text
from trainwright.tune.proposals import add_trial
from trainwright.tune.space import Space
from trainwright.tune.study_folder import StudyFolder

if TYPE_CHECKING:
    from trainwright.tune.study import Trial


def write_table(folder: StudyFolder, space: Space, trials: Sequence[Trial]) -> None:
    """`trials.csv`: a line for each trial, a column for each path."""
    stream = io.StringIO()
    table = csv.writer(stream, lineterminator="\n")
    paths = [axis.path for axis in space.axes]
    table.writerow(["trial", "state", "value", "seconds", "price", "megabytes", "reason", *paths])
    for trial in trials:
        outcome = trial.outcome
        numbers = (outcome.value, outcome.seconds, outcome.price, outcome.megabytes)
        tried = [trial.params.get(path, "") for path in paths]
        shown = ["" if number is None else number for number in numbers]
        table.writerow([trial.number, outcome.state, *shown, outcome.reason, *tried])
    write_text(folder.path / "trials.csv", stream.getvalue())


def write_journal(
    folder: StudyFolder, space: Space, trials: Sequence[Trial], direction: Direction
) -> None:
    """`optuna.journal`, which Optuna's own tools and its dashboard read. It is written from the
    trials, and again when a study goes on."""
    import optuna
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    journal = folder.path / "optuna.journal"
    journal.unlink(missing_ok=True)
    study = optuna.create_study(
        storage=JournalStorage(JournalFileBackend(str(journal))),
        study_name=folder.name,
        direction="maximize" if direction == "max" else "minimize",
    )
    for trial in trials:
        add_trial(study, space, trial.params, trial.outcome.value)
