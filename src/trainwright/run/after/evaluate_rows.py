"""Evaluation of a finished run on other rows, and predictions."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import final

import polars as pl

from trainwright.contract.document import Contract
from trainwright.contract.sections.data.sources import Reading
from trainwright.core.errors import Mistake, Problem
from trainwright.core.files import damage_in, read_json
from trainwright.core.redaction import redact_named
from trainwright.data.base.messages import some
from trainwright.data.base.table import Part
from trainwright.data.dispatch import modality_of
from trainwright.data.sources.source_file import FileVersion
from trainwright.evaluation.evaluate import evaluate
from trainwright.evaluation.scored_part import Scored
from trainwright.evaluation.verdict import judge
from trainwright.predictor.predictor import Predictor
from trainwright.run.after.new_rows import reading_of, whole_reading_of
from trainwright.run.folder.baseline_bundles import read_baselines
from trainwright.run.folder.check_own_files import read_own_bundle
from trainwright.run.folder.planned_contract import read_planned
from trainwright.run.folder.trained_rows import find_trained_rows
from trainwright.run.run_result import Result
from trainwright.run.script_runs import refuse_script_run
from trainwright.tracking.run_folder import RunFolder


def evaluate_rows(folder: RunFolder, data: str | Path, overrides: Sequence[str] = ()) -> Result:
    """Evaluate the model of a run on the labelled rows of a file, by the run's contract. The file
    is read according to `data.reading`, with `overrides`; records excluded by that are reported
    among the warnings.

    Nothing is written: the verdict of the run remains that of its test rows.

    Raises:
        Mistake: the run has no model, or the file cannot be evaluated.
    """
    if not str(data):
        raise Mistake(
            Problem("no file is named that could be read so", path="DATA", fix="add the file")
        )
    predictor = _read_predictor(folder)
    contract = read_planned(folder)
    reading = reading_of(contract, overrides)
    part, notes = _read(str(data), predictor, folder, contract, reading)
    scores = predictor.score(part.inputs)
    scored = Scored(
        part=part,
        target=predictor.target,
        scores=scores,
        decided=predictor.decide(scores),
        baselines={
            **{name: one.score_part(part) for name, one in read_baselines(folder).items()},
            **predictor.score_counterfactuals(part.inputs),
        },
    )
    evaluation = evaluate(scored, contract.metric, contract.slices, contract.seed)
    evaluation = replace(evaluation, warnings=(*evaluation.warnings, *notes))
    is_linear = contract.model.may_be_linear
    verdict = judge(contract.metric, contract.slices, evaluation, is_linear=is_linear)
    return Result(folder, evaluation, verdict, {})


@final
@dataclass(frozen=True, slots=True)
class Predictions:
    """A prediction for each row of a file, after the kept columns. `unseen` counts, for each
    categorical column, the rows with a category unseen in training."""

    frame: pl.DataFrame
    unseen: Mapping[str, int]


def predict_file(
    folder: RunFolder,
    data: str | Path,
    overrides: Sequence[str] = (),
    keep: Sequence[str] = (),
) -> Predictions:
    """A prediction for each row of a file, in order, next to the columns to `keep`. The file is
    read as in `evaluate_rows`, but no record is skipped, so that predictions and rows stay aligned.

    Raises:
        Mistake: the run has no model, or a column is missing or unreadable.
    """
    predictor = _read_predictor(folder)
    contract = read_planned(folder)
    reading = whole_reading_of(contract, overrides)
    modality = modality_of(contract.data.kind)
    file = modality.read_unlabelled(str(data), predictor.features, contract.data, reading, keep)
    predicted = predictor.predict_frame(file.rows, redact_named(str(data)))
    frame = pl.concat([file.before, predicted], how="horizontal")
    return Predictions(frame, predictor.count_unseen(file.rows))


def match_file(folder: RunFolder, data: str, candidates: str, top: int) -> Predictions:
    """The best candidates of each image or text of a file: texts of images, images of texts.

    Raises:
        Mistake: the run matches no images and texts, or a file cannot be read.
    """
    predictor, contract = _read_predictor(folder), read_planned(folder)
    if predictor.target.task != "retrieval":
        raise Mistake(
            Problem(
                "the model of this run matches no images and texts",
                path="--candidates",
                found=f"a run with task: {predictor.target.task}",
                expected="a run with task: retrieval",
                fix="leave it out",
            )
        )
    # Imported here: few runs match pairs.
    from trainwright.predictor.best_matches import best_matches

    modality, features = modality_of(contract.data.kind), predictor.features
    asked = modality.read_side(data, features, contract.data, "given")
    others = modality.read_side(candidates, features, contract.data, asked.other)
    queries, answers = (predictor.score(one.inputs) for one in (asked, others))
    matches = best_matches(queries, answers, others.names, top)
    return Predictions(pl.concat([asked.names.to_frame(), matches], how="horizontal"), {})


def _read_predictor(folder: RunFolder) -> Predictor:
    refuse_script_run(
        folder,
        f"predict in the script, or: trainwright weights export {shlex.quote(str(folder.path))}",
    )
    return read_own_bundle(folder)


def _read(
    data: str, predictor: Predictor, folder: RunFolder, contract: Contract, reading: Reading
) -> tuple[Part, list[str]]:
    """The file as a part, and what was excluded from it or the model has seen."""
    modality = modality_of(contract.data.kind)
    found = modality.read_labelled(
        data, predictor.features, predictor.target, contract.data, reading
    )
    known = _known_files(found.files, folder)
    known = known or find_trained_rows(found.part, predictor.features, folder)
    return found.part, [*known, *_ungrouped(found.ungrouped), *found.notes]


def _known_files(files: Sequence[FileVersion], folder: RunFolder) -> list[str]:
    """Warning for files that the model has seen, on which a score is too good."""
    manifest = folder.data / "manifest.json"
    if not manifest.is_file():
        return []
    with damage_in(manifest):
        of_run = read_json(manifest)["facts"]["files"]
        # Validation and test rows did not train the weights: no warning for them.
        seen = {one["sha256"] for one in of_run if one.get("part", "train") == "train"}
    known = [file.path for file in files if file.sha256 in seen]
    if not known:
        return []
    return [
        f"run {folder.name} was trained on {some(known)}: this is no score for new data, that of "
        f"its test part is: trainwright evaluate {folder.name}"
    ]


def _ungrouped(column: str) -> list[str]:
    if not column:
        return []
    return [
        f"the data does not name the groups of the training ({column!r}): each row counts by "
        "itself, so the intervals are too narrow if some belong together"
    ]
