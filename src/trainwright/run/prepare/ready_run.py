"""A run that is ready to train: contract, data and plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, final

from trainwright.contract.reading.read_contract import Document
from trainwright.core.files import Json
from trainwright.data.dispatch import modality_of
from trainwright.data.read_table import Raw
from trainwright.data.sources.file_guard import FilesRead
from trainwright.data.types import Prepared
from trainwright.planner.plan import Plan
from trainwright.planner.read_device import DeviceFacts

if TYPE_CHECKING:
    from trainwright.run.prepare.question_sets import LoadedQuestions


@final
@dataclass(frozen=True, slots=True)
class Ready:
    """Everything known before budget is spent. `files` are those that were read, `seconds_before`
    is the time until the run's folder was opened. `teacher` describes that of the contract;
    `questions` are those that it asks."""

    document: Document
    raw: Raw
    device: DeviceFacts
    plan: Plan
    prepared: Prepared
    files: FilesRead
    seconds_before: float = 0.0
    teacher: Mapping[str, Json] = field(default_factory=dict)
    questions: tuple[LoadedQuestions, ...] = ()


def without_undivided(ready: Ready) -> Ready:
    """The same without the unsplit rows, which only folds and a refit still need: training cannot
    afford to keep them in memory next to its parts."""
    if ready.plan.contract.training.refit:
        return ready
    data = ready.plan.contract.data
    return replace(ready, raw=modality_of(data.kind).after_split(ready.raw, data))
