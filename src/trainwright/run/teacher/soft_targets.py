"""What a teacher predicts of the training rows (`training.teacher`): computed once, and kept as a
derived version of the data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl

from trainwright.contract.document import Contract
from trainwright.contract.sections.data.data import Data
from trainwright.contract.sections.training.objective import Teacher, TeacherStates
from trainwright.core.errors import ContractMistake, Mistake, Problem
from trainwright.core.files import Json, damage_in, hash_file, hash_value, read_json
from trainwright.data.base.inputs import Bytes, Floats, Part
from trainwright.data.dispatch import part_as_read, rows_as_given
from trainwright.data.read_table import Raw
from trainwright.data.sources.cache import SOFT_TARGETS, TEACHER_STATES, open_cache
from trainwright.data.types import Prepared
from trainwright.predictor.bundle import MANIFEST
from trainwright.predictor.input_rows import GivenRows
from trainwright.predictor.predictor import Predictor
from trainwright.run.folder.check_own_files import read_model
from trainwright.run.folder.model_files import find_trained_rows
from trainwright.run.folder.planned_contract import read_planned
from trainwright.run.teacher.teacher_states import check_states, states_of_rows
from trainwright.tracking.run_folder import RunFolder, is_run_folder

TEACHER_PATH = "training.teacher.bundle"
_UNKNOWN = (
    "whether the teacher was trained on test rows is not known: it is no run with this split, and "
    "its training rows are not at hand"
)


def teach(
    prepared: Prepared, contract: Contract, raw: Raw, folder: Path
) -> tuple[Prepared, dict[str, Json]]:
    """The data with what the contract's teacher predicts of the training rows, with its hidden
    states of them where the contract asks for them, and what the record says of the teacher: its
    `path`, the `sha256` of its bundle and the `note` of a doubt.

    Raises:
        Mistake: there is no such model, it cannot read the rows, it predicts something else, or it
            was trained on test rows.
    """
    section = contract.training.teacher
    assert isinstance(section, Teacher), "the contract has a teacher"
    place = folder / section.bundle
    teacher = read_teacher(place)
    _check_target(teacher, prepared)
    note = _check_unseen(teacher, place, prepared, contract, raw)
    within = RunFolder(place).bundle if is_run_folder(place) else place
    digest = hash_file(within / MANIFEST)
    parts: dict[str, Json] = {"teacher": digest, "rows": prepared.version}
    has_states = isinstance(section.hidden, TeacherStates)
    if has_states:
        check_states(teacher, contract.model, prepared)
        parts["states"] = 1
    key = hash_value(parts)

    def write(entry: Path) -> Json:
        rows = rows_as_given(raw, contract.data, prepared.train)
        np.save(entry / SOFT_TARGETS, _scores(teacher, rows, prepared), allow_pickle=False)
        if has_states:
            rows = rows_as_given(raw, contract.data, prepared.train)
            np.save(entry / TEACHER_STATES, states_of_rows(teacher, rows), allow_pickle=False)
        return {}

    cache = open_cache(contract.data.cache_folder, folder)
    found, _ = cache.entry("values", key, f"soft targets of {section.bundle}", write)
    scores: Floats = np.load(found / SOFT_TARGETS, allow_pickle=False)
    train = replace(prepared.train, soft_targets=scores)
    if has_states:
        states = np.load(found / TEACHER_STATES, allow_pickle=False)
        train = replace(train, teacher_states=states)
    about: dict[str, Json] = {"path": section.bundle, "sha256": digest, "note": note}
    return replace(prepared, train=train, version=key), about


def read_teacher(place: Path) -> Predictor:
    """The model of a run or of a bundle, as a teacher.

    Raises:
        ContractMistake: there is none.
    """
    try:
        return read_model(place)
    except Mistake as mistake:
        raise _of_teacher(mistake) from mistake


def _of_teacher(mistake: Mistake) -> Mistake:
    """The same problems, of the contract's teacher."""
    return ContractMistake(
        replace(
            problem,
            message=f"the teacher cannot be used: {problem.message}",
            path=TEACHER_PATH,
            fix=problem.fix or "name a run, or a bundle, that can read these rows",
        )
        for problem in mistake.problems
    )


def _check_target(teacher: Predictor, prepared: Prepared) -> None:
    theirs, ours = teacher.target, prepared.target
    same = set(theirs.classes) == set(ours.classes) and theirs.task == ours.task
    if same and not theirs.quantiles:
        return
    described = ", ".join(theirs.classes[:5]) or f"{theirs.task} of {theirs.column!r}"
    raise ContractMistake(
        Problem(
            "the teacher predicts something else",
            path=TEACHER_PATH,
            found=described,
            expected=", ".join(ours.classes[:5]) or f"{ours.task}, one number a row",
            fix="name a model of the same target",
        )
    )


def _scores(teacher: Predictor, rows: Iterator[pl.DataFrame | Bytes], prepared: Prepared) -> Floats:
    """Its probabilities [N, C] in the order of our classes, or its values [N, 1]."""
    try:
        blocks = [teacher.score(teacher.features.read_new(GivenRows(block))) for block in rows]
    except Mistake as mistake:
        raise _of_teacher(mistake) from mistake
    scores = np.concatenate(blocks)
    if classes := prepared.target.classes:
        scores = scores[:, [teacher.target.classes.index(name) for name in classes]]
    assert bool(np.isfinite(scores).all()), "a model's scores are finite"
    return np.ascontiguousarray(scores, np.float64)


def _check_unseen(
    teacher: Predictor, place: Path, prepared: Prepared, contract: Contract, raw: Raw
) -> str:
    """Refuse a teacher that was trained on our test rows; what remains unknown, if anything.

    Raises:
        ContractMistake: it was.
    """
    if not is_run_folder(place) or not len(prepared.test):
        return _UNKNOWN
    run = RunFolder.open(place)
    if same_division(run, contract, raw):
        return ""
    part = _as_read(teacher, prepared.test, contract.data, raw)
    if part is None or not teacher.features.hashed_columns:
        return _UNKNOWN
    for warning in find_trained_rows(part, teacher.features, run):
        raise ContractMistake(
            Problem(
                "the teacher was trained on test rows of this contract",
                path=TEACHER_PATH,
                found=warning,
                expected="a teacher that has seen none of them",
                fix="train the teacher on this split of the rows",
            )
        )
    return ""


def same_division(run: RunFolder, contract: Contract, raw: Raw) -> bool:
    """Did the run divide the same files in the same way?"""
    manifest = run.data / "manifest.json"
    if not manifest.is_file():
        return False
    with damage_in(manifest):
        listed = read_json(manifest)["facts"]["files"]
        theirs = sorted((str(file.get("part", "train")), str(file["sha256"])) for file in listed)
    ours = sorted((file.part, file.sha256) for file in raw.facts.files)
    return theirs == ours and _division(read_planned(run)) == _division(contract)


def _division(contract: Contract) -> tuple[object, ...]:
    data = contract.data
    return contract.split_seed, data.kind, data.part_shares, data.folding.model_dump(mode="json")


def _as_read(teacher: Predictor, part: Part, section: Data, raw: Raw) -> Part | None:
    """Rows with their targets as the teacher reads them; None if it cannot."""
    try:
        return part_as_read(raw, section, part, teacher.features, teacher.target)
    except Mistake:
        return None
