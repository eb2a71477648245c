"""The trials of a study for other tools: a table, and Optuna's journal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import polars as pl

from trainwright.contract.sections.metric import Direction
from trainwright.tune.proposals import add_trial, new_study
from trainwright.tune.space import Space
from trainwright.tune.study_folder import StudyFolder

if TYPE_CHECKING:
    from trainwright.tune.study import Trial

_KEPT = ("state", "value", "seconds", "price", "megabytes", "reason")


def trials_frame(trials: Sequence[Trial]) -> pl.DataFrame:
    """A row for each trial: its number, state, value, seconds, price, size in 10^6 bytes, why it
    ended, and what it tried, a column for each path."""
    columns: dict[str, list[Any]] = {"trial": [trial.number for trial in trials]}
    for name in _KEPT:
        columns[name] = [getattr(trial.outcome, name) for trial in trials]
    for path in dict.fromkeys(path for trial in trials for path in trial.params):
        tried = [trial.params.get(path) for trial in trials]
        if len({type(value) for value in tried} - {type(None), int, float}) > 0:
            tried = [None if value is None else str(value) for value in tried]
        columns[path] = tried
    return pl.DataFrame(columns, strict=False)


def write_journal(
    folder: StudyFolder, space: Space, trials: Sequence[Trial], direction: Direction
) -> None:
    """`optuna.journal`, which Optuna's own tools and its dashboard read. It is written from the
    trials, and again when a study goes on."""
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    journal = folder.path / "optuna.journal"
    journal.unlink(missing_ok=True)
    study = new_study(direction, folder.name, JournalStorage(JournalFileBackend(str(journal))))
    for trial in trials:
        outcome = trial.outcome
        add_trial(study, space, trial.params, outcome.value, outcome.steps, outcome.state)
