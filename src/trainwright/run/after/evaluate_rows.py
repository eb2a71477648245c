"""Evaluation of a finished run on other rows, and predictions."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import final

import polars as pl
from pydantic import ValidationError

from trainwright.contract.document import Contract
from trainwright.contract.reading.overrides import set_values
from trainwright.contract.reading.validation_errors import problems_of_shape
from trainwright.contract.reading.yaml_reader import ParsedYaml
from trainwright.contract.rules.data.source_rules import separator_is_one_mark
from trainwright.contract.sections.data.sources import USUAL, Reading
from trainwright.core.errors import ContractMistake, Mistake, Place, Problem
from trainwright.core.files import damage_in, read_json
from trainwright.core.redaction import redact_named
from trainwright.data.base.inputs import Part
from trainwright.data.base.messages import some
from trainwright.data.dispatch import modality_of
from trainwright.data.sources.source_file import FileVersion
from trainwright.data.subsample import sampled
from trainwright.evaluation.evaluate import Scored, evaluate
from trainwright.evaluation.metrics.predictions import count_units
from trainwright.evaluation.verdict import judge
from trainwright.predictor.bundle import read_description
from trainwright.predictor.drift import note_drift
from trainwright.predictor.predictor import Predictor
from trainwright.run.folder.check_own_files import read_own_bundle
from trainwright.run.folder.model_files import find_trained_rows, read_baselines
from trainwright.run.folder.planned_contract import read_planned
from trainwright.run.request import refuse_script_run
from trainwright.run.run_context import Result
from trainwright.tracking.run_folder import RunFolder

_READING = "data.reading."
_BAD_RECORDS = f"{_READING}bad_records"


def reading_of(contract: Contract, overrides: Sequence[str]) -> Reading:
    """How to read a file for the model of a contract: according to `data.reading`, with `overrides`
    such as `data.reading.encoding=cp1252`. The cache of the contract is not used.

    Raises:
        ContractMistake: an override outside `data.reading`, or an invalid one.
    """
    others = [text for text in overrides if not text.strip().startswith(_READING)]
    images = "reading" not in type(contract.data).model_fields
    if others or (images and overrides):
        raise ContractMistake(_not_here((others or list(overrides))[0], images=images))
    if images:
        return USUAL
    written, _ = set_values(ParsedYaml(contract.model_dump(mode="json"), {}), overrides)
    try:
        changed = Contract.model_validate_json(json.dumps(written.value, allow_nan=False))
    except ValidationError as error:
        raise ContractMistake(problems_of_shape(Contract, written.value, error)) from None
    if problems := list(separator_is_one_mark(changed, frozenset())):
        raise ContractMistake(problems)
    reading = changed.data.file_reading
    away = reading.cache == "off" or Path(reading.cache).is_absolute()
    return reading if away else reading.model_copy(update={"cache": USUAL.cache})


def whole_reading_of(contract: Contract, overrides: Sequence[str]) -> Reading:
    """As `reading_of`, but without excluding records: every row of the file gets a prediction.

    Raises:
        ContractMistake: as `reading_of`, or an override asks to exclude records.
    """
    if asked := [text for text in overrides if text.strip().startswith(_BAD_RECORDS)]:
        raise ContractMistake(
            Problem(
                "a prediction stands for each row, so none can be skipped",
                path=_BAD_RECORDS,
                fix="repair the rows, or take them out of the file",
                place=Place(f"--set {asked[0]}"),
            )
        )
    return reading_of(contract, overrides).model_copy(update={"bad_records": 0})


def _not_here(text: str, *, images: bool) -> Problem:
    return Problem(
        "the model of a run is used as it was made",
        path=text.partition("=")[0].strip(),
        expected="nothing: images are read as those of the training"
        if images
        else f"a path that begins with {_READING}",
        fix="leave it out" if images else f"write for example --set {_READING}encoding=cp1252",
        place=Place(f"--set {text}"),
    )


def evaluate_rows(
    folder: RunFolder,
    data: str | Path,
    overrides: Sequence[str] = (),
    allow_unknown: Sequence[str] = (),
) -> Result:
    """Evaluate the model of a run on the labelled rows of a file, by the run's contract. The file
    is read according to `data.reading`, with `overrides`; records excluded by that are reported
    among the warnings. Columns to `allow_unknown` may be empty or unknown in most rows.

    Nothing is written: the verdict of the run remains that of its test rows.

    Raises:
        Mistake: the run has no model, or the file cannot be evaluated.
    """
    if not str(data):
        raise Mistake(
            Problem("no file is named that could be read so", path="DATA", fix="add the file")
        )
    predictor = _read_predictor(folder).allow_unknown(*allow_unknown)
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
    training = read_description(folder.bundle).profile.get("training", {})
    profiled = sampled(part, predictor.features.profiled_rows, contract.seed)
    new = predictor.features.profile(profiled)
    drift = note_drift(training, new, count_units(profiled.units))
    evaluation = replace(evaluation, warnings=(*drift, *evaluation.warnings, *notes))
    is_linear = contract.model.may_be_linear
    verdict = judge(contract.metric, contract.slices, evaluation, is_linear=is_linear)
    return Result(folder, evaluation, verdict, {})


@final
@dataclass(frozen=True, slots=True)
class Predictions:
    """A prediction for each row of a file, after the kept columns. `unseen` counts by column the
    rows with a new category, or no value where every training row has one; `notes` are messages."""

    frame: pl.DataFrame
    unseen: Mapping[str, int]
    notes: Sequence[str] = ()


def predict_file(
    folder: RunFolder,
    data: str | Path,
    overrides: Sequence[str] = (),
    keep: Sequence[str] = (),
    allow_unknown: Sequence[str] = (),
) -> Predictions:
    """A prediction for each row of a file, in order, next to the columns to `keep`. The file is
    read as by `evaluate_rows`, but no record is skipped, so that predictions and rows stay aligned.

    Raises:
        Mistake: the run has no model, or a column is missing or unreadable.
    """
    predictor = _read_predictor(folder).allow_unknown(*allow_unknown)
    contract = read_planned(folder)
    reading = whole_reading_of(contract, overrides)
    modality = modality_of(contract.data.kind)
    file = modality.read_unlabelled(str(data), predictor.features, contract.data, reading, keep)
    predicted = predictor.predict_frame(file.rows, redact_named(str(data)))
    frame = pl.concat([file.before, predicted], how="horizontal")
    return Predictions(frame, predictor.count_unseen(file.rows), file.notes)


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
    from trainwright.predictor.embedding_index import best_matches

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
