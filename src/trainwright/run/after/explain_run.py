"""What the model of a finished run reads, over data that is prepared anew."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import polars as pl

from trainwright.contract.reading.read_contract import ContractText
from trainwright.core.errors import DataChanged, NotAvailable, Problem
from trainwright.core.files import damage_in, read_json, write_json
from trainwright.core.redaction import redact_named
from trainwright.data.dispatch import modality_of
from trainwright.data.encoders.table_encoder import TableEncoder
from trainwright.evaluation.explanations.contributions import contribution_frame
from trainwright.evaluation.explanations.explain_model import Effort, explain_model
from trainwright.evaluation.explanations.explanation import Explanation
from trainwright.predictor.input_rows import frame_of
from trainwright.predictor.predictor import Predictor
from trainwright.run.after.evaluate_rows import whole_reading_of
from trainwright.run.folder.check_own_files import read_own_bundle
from trainwright.run.folder.planned_contract import read_planned
from trainwright.run.prepare.prepare_run import Ready, make_ready
from trainwright.run.request import Request, refuse_script_run, request_again
from trainwright.run.screen import Screen, StageTimes
from trainwright.tracking.run_folder import RunFolder


def prepare_again(folder: RunFolder, screen: Screen, why: str) -> Ready:
    """Data and plan of a run, by the contract as the run was given it. `why` says what other rows
    would do.

    Raises:
        DataChanged: the data is not that of the run. As `make_ready`.
    """
    with damage_in(folder.record):
        version = str(read_json(folder.record)["data_version"])
    ready = make_ready(_request_of(folder), StageTimes(), screen)
    if ready.prepared.version != version:
        raise DataChanged(
            f"the data of run {folder.name} has changed since it was trained. Put the files back, "
            f"or train again: {why}"
        )
    return ready


def _request_of(folder: RunFolder) -> Request:
    """As `request_again`, with the contract as the run was given it: the file may be another by
    now."""
    request = request_again(folder, ())
    text = folder.contract.read_text(encoding="utf-8")
    written = request.contract
    at = written.folder if isinstance(written, ContractText) else written.absolute().parent
    return replace(request, contract=ContractText(text, at))


def explain_run(folder: RunFolder, effort: Effort, screen: Screen) -> Explanation:
    """Measure what the model of a run reads, on its validation rows, and write `explanation.json`.
    The data is read and split again; the test rows stay closed.

    Raises:
        Mistake: the run has no model of a table. DataChanged: the data is not that of the run.
        StorageFailed: the disk.
    """
    predictor = _read_explained(folder)
    contract = read_planned(folder)
    if contract.training.refit:
        raise NotAvailable(
            Problem(
                "the model was trained on the validation rows, so they do not show what it reads",
                path="training.refit",
                found="true",
                expected="a model with validation rows",
                fix="train a run with --set training.refit=false, and explain that",
            )
        )
    why = "an explanation on other rows could hold rows of the training"
    part = prepare_again(folder, screen, why).prepared.validation
    found = explain_model(predictor, part, contract.metric, contract.seed, effort)
    write_json(folder.explanation, found.to_json())
    return found


def explain_rows(
    folder: RunFolder, data: str | Path, overrides: Sequence[str] = ()
) -> pl.DataFrame:
    """The contributions of each input column to each row of a file, which is read as by
    `predict_file`. Nothing is written.

    Raises:
        Mistake: the run has no model of trees, or a column is missing or unreadable.
    """
    predictor = _read_explained(folder)
    contract = read_planned(folder)
    reading = whole_reading_of(contract, overrides)
    modality = modality_of(contract.data.kind)
    file = modality.read_unlabelled(str(data), predictor.features, contract.data, reading, ())
    features = TableEncoder.of_kind(predictor.features)
    typed = features.read(frame_of(file.rows), redact_named(str(data)))
    return contribution_frame(predictor, typed)


def _read_explained(folder: RunFolder) -> Predictor:
    refuse_script_run(folder, "explain the model in the script")
    predictor = read_own_bundle(folder)
    if not predictor.features.reads_columns:
        kind = predictor.features.modality
        raise NotAvailable(
            Problem(
                "only a model of a table is explained by its columns",
                path="data.kind",
                found=predictor.scorer.kind if predictor.features.reads_frames else kind,
                expected="one model of the columns of a table",
                fix=f"trainwright report {folder.name} shows where the model errs",
            )
        )
    return predictor
