"""What a search knows before its first trial: the trials of an earlier study."""

from __future__ import annotations

from collections.abc import Sequence

from trainwright.contract.reading.read_contract import Document
from trainwright.core.errors import Mistake, Problem
from trainwright.core.formatting import many
from trainwright.run.screen import Screen, labelled
from trainwright.tune.space import Params, Space
from trainwright.tune.study_folder import StudyFolder, is_study

KnownTrials = Sequence[tuple[Params, float]]
"""Values of trials, with the metric that they reached."""


def read_known(document: Document, start: str, space: Space, screen: Screen) -> KnownTrials:
    """The complete trials of an earlier study whose values lie in a space, none without a study;
    says how many. Values that it did not search are those of its contract, and a relative folder
    starts at that of the contract.

    Raises:
        Mistake: it is no study, has no complete trial, or one of another metric.
    """
    if not start:
        return []
    study = StudyFolder(document.source.folder / start)
    metric = document.contract.metric.name
    if not is_study(study.path):
        raise Mistake(_wrong("there is no study in this folder", start, "the folder of a study"))
    known, complete = list[tuple[Params, float]](), 0
    for number in study.numbers():
        outcome = study.files(number).outcome()
        if outcome is None or outcome.state != "complete" or outcome.value is None:
            continue
        complete += 1
        contract = study.plan_of(number)["contract"]
        if contract["metric"]["name"] != metric:
            what = "the study to start from has another metric"
            raise Mistake(_wrong(what, contract["metric"]["name"], metric))
        if params := space.values_of(contract):
            known.append((params, outcome.value))
    if not complete:
        raise Mistake(_wrong("the study has no complete trial", start, "one that has some"))
    kind = "start" if known else "warning"
    said = f"{len(known)} of {many(complete, 'complete trial')} of {start} lie in this space"
    screen.say(labelled(kind, f"{said}: their values steer the search"))
    return known


def _wrong(what: str, found: str, expected: str) -> Problem:
    fix = "name another study, or remove tune.start"
    return Problem(what, path="tune.start", found=found, expected=expected, fix=fix)
