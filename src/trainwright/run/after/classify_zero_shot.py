"""Zero-shot classification of images with the dual encoder of a run."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl

from trainwright.contract.reading.read_zero_shot import read_zero_shot
from trainwright.contract.sections.data.pairs import PairData
from trainwright.contract.sections.zero_shot import ZeroShot
from trainwright.core.errors import DataMistake, Mistake, Problem
from trainwright.core.formatting import many
from trainwright.data.base.inputs import Part
from trainwright.data.base.messages import some
from trainwright.data.base.pair_inputs import PairInputs
from trainwright.data.base.parse_cells import to_labels
from trainwright.data.columns.class_target import Classes
from trainwright.data.pairs.new_pairs import (
    LabelColumns,
    LabelledPictures,
    labelled_pictures,
    read_pair_side,
)
from trainwright.data.pairs.pair_encoder import PairEncoder
from trainwright.evaluation.clause import DUMMY, LINEAR
from trainwright.evaluation.evaluate import Scored, evaluate
from trainwright.evaluation.verdict import judge
from trainwright.model.baselines.dummy import fit_constant
from trainwright.predictor.predictor import Predictor
from trainwright.predictor.zero_shot_classes import linear_zero_shot, zero_shot_scores
from trainwright.run.after.explain_run import prepare_again
from trainwright.run.folder.check_own_files import read_own_bundle
from trainwright.run.folder.model_files import read_baselines, trained_mask
from trainwright.run.folder.planned_contract import read_planned
from trainwright.run.run_context import Result
from trainwright.run.screen import StreamScreen
from trainwright.tracking.run_folder import RunFolder


def evaluate_zero_shot(folder: RunFolder, data: str, classes: Path) -> Result:
    """Judge a run's dual encoder as a classifier of labelled images, whose classes stand in a file;
    without `data`, of the run's own test pairs. Images that it was trained on are excluded.
    Nothing is written.

    Raises:
        Mistake: the run is no retrieval of images, or files cannot be read. DataChanged: without
            `data`, where the run's data is another by now.
    """
    wanted, predictor = read_zero_shot(classes), _dual_encoder(folder)
    found = _labelled(folder, predictor, wanted, data)
    part, notes = _part(found, wanted, predictor, folder)
    linear = read_baselines(folder)[LINEAR]
    constant = fit_constant(part.target, len(wanted.classes))
    scored = Scored(
        part=part,
        target=Classes(wanted.label, wanted.classes, 1 if len(wanted.classes) == 2 else -1),
        scores=zero_shot_scores(predictor, part.inputs, wanted),
        baselines={
            DUMMY: constant.score(part.inputs),
            LINEAR: linear_zero_shot(linear, part.inputs, wanted),
        },
        notes=tuple(notes),
    )
    contract = read_planned(folder)
    evaluation = evaluate(scored, wanted.metric, wanted.slices, contract.seed)
    return Result(folder, evaluation, judge(wanted.metric, wanted.slices, evaluation), {})


def predict_zero_shot(folder: RunFolder, images: str, classes: Path) -> pl.DataFrame:
    """The class of each image of a file or folder: its name, `prediction`, and a probability for
    each class.

    Raises:
        Mistake: as `evaluate_zero_shot`.
    """
    wanted, predictor = read_zero_shot(classes), _dual_encoder(folder)
    encoder = PairEncoder.of_kind(predictor.features)
    section = PairData.of(read_planned(folder).data)
    asked = read_pair_side(images, encoder, section, "images")
    scores = zero_shot_scores(predictor, asked.inputs, wanted)
    target = Classes(wanted.label, wanted.classes, -1)
    return pl.DataFrame([asked.names.alias("image"), *target.predictions(scores)])


def _dual_encoder(folder: RunFolder) -> Predictor:
    predictor = read_own_bundle(folder)
    if not predictor.features.knows_images:
        raise Mistake(
            Problem(
                "the model of this run compares no images with texts",
                path="--zero-shot",
                found=f"a run with task: {predictor.target.task}",
                expected="a run with model.kind: dual_encoder",
                fix="leave it out",
            )
        )
    return predictor


def _labelled(
    folder: RunFolder, predictor: Predictor, wanted: ZeroShot, data: str
) -> LabelledPictures:
    """The images of a file, or the run's own test pairs."""
    if data:
        section = PairData.of(read_planned(folder).data)
        encoder = PairEncoder.of_kind(predictor.features)
        columns = LabelColumns(wanted.label, wanted.group)
        return labelled_pictures(data, encoder, section, columns)
    screen = StreamScreen(io.StringIO())
    part = prepare_again(folder, screen, "other pairs may be those of the training").prepared.test
    if wanted.label not in part.frame.columns:
        raise Mistake(
            Problem(
                f"the pairs of the run have no column {wanted.label!r}",
                path="label",
                found=some(part.frame.columns),
                expected="a column with the class of each image",
                fix="name another label, or give labelled images as DATA",
            )
        )
    return LabelledPictures(PairInputs.of_kind(part.inputs).images, part.frame, part.units)


def _read_labels(found: LabelledPictures, wanted: ZeroShot) -> pl.Series:
    labels = to_labels(found.frame[wanted.label])
    is_strange = ~labels.is_in(list(wanted.classes)).fill_null(value=False)
    if is_strange.any():
        shown = some(sorted({str(one) for one in labels.filter(is_strange).to_list()}))
        raise DataMistake(
            Problem(
                f"{many(int(is_strange.sum()), 'image')} of another class",
                path="classes",
                found=shown,
                expected=", ".join(wanted.classes[:10]),
                fix="add the class, or leave these rows out",
            )
        )
    return labels


def _part(
    found: LabelledPictures, wanted: ZeroShot, predictor: Predictor, folder: RunFolder
) -> tuple[Part, list[str]]:
    """The images as a part, without those of the training, and what is to be said of them."""
    labels = _read_labels(found, wanted)
    frame = found.frame.with_columns(labels.alias(wanted.label))
    codes = {label: code for code, label in enumerate(wanted.classes)}
    target = labels.replace_strict(codes, return_dtype=pl.Int64).to_numpy()
    part = Part("test", frame, found.images, target, np.arange(len(frame)), found.units)
    seen = trained_mask(part, predictor.features, folder)
    if seen is None:
        return part, [f"run {folder.name} does not know its training images: none is excluded"]
    if not seen.any():
        return part, []
    kept = np.flatnonzero(~seen)
    if not len(kept):
        raise DataMistake(
            Problem(
                "the model was trained on all of these images",
                path="DATA",
                found=many(len(part), "image"),
                expected="images that it has not seen",
                fix="leave out DATA: the run's own test pairs are judged",
            )
        )
    note = f"{int(seen.sum()):,} of {many(len(part), 'image')} excluded: the model was trained on"
    rows = replace(
        part,
        frame=frame[kept],
        inputs=found.images.take(kept),
        target=target[kept],
        rows=kept,
        units=found.units[kept],
    )
    return rows, [f"{note} the same pixels"]
