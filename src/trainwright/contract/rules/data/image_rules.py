"""Rules on images."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.contract.document import Contract
from trainwright.contract.sections.data.data import fold_count
from trainwright.contract.sections.data.images import Decoding, ImageData
from trainwright.contract.sections.data.sampling import Balanced
from trainwright.contract.sections.model import kinds_with
from trainwright.core.errors import Problem


def images_in_folds_stand_together(
    _contract: Contract, data: ImageData, _written: frozenset[str]
) -> Iterator[Problem]:
    """Every image is tested once in its fold."""
    if fold_count(data) and (data.val_path or data.test_path):
        yield Problem(
            "every image is tested once in its fold, so no part stands apart",
            path="data.split.folds",
            found="folds beside data.val_path or data.test_path",
            fix="remove folds, or the path",
        )


def images_fit_their_limit(
    _contract: Contract, data: ImageData, _written: frozenset[str]
) -> Iterator[Problem]:
    """As `check_pixel_limit`."""
    yield from check_pixel_limit(data.decoding)


def check_pixel_limit(decoding: Decoding) -> Iterator[Problem]:
    """Images are not made larger than those that are refused for their size."""
    if isinstance(decoding.size, str):
        return
    height, width = decoding.size
    if height * width > decoding.most_pixels:
        yield Problem(
            "each image would have more pixels than is allowed",
            path="data.decoding.size",
            found=f"{height:,} x {width:,} = {height * width:,} pixels",
            expected=f"at most {decoding.most_pixels:,} (data.decoding.most_pixels)",
            fix="write a smaller size",
        )


def labels_of_images(
    contract: Contract, data: ImageData, written: frozenset[str]
) -> Iterator[Problem]:
    """What several labels of an image go together with."""
    if not data.labels.separator:
        yield from _without_separator(contract, data)
        return
    # Imported here: few images have several labels.
    from trainwright.contract.rules.target.several_rules import (
        metrics_have_several,
        training_knows_several,
    )

    yield from metrics_have_several(contract, data, written)
    yield from training_knows_several(contract, data, written)
    model = contract.model
    if "labels" not in model.traits.predicts:
        fitting = kinds_with(lambda one: "labels" in one.predicts and data.form in one.reads)
        whole = kinds_with(
            lambda one: "labels" in one.predicts and data.form in one.reads and not one.needs_files
        )
        yield Problem(
            f"a model of kind {model.kind} predicts one label of an image",
            path="model.kind",
            found=model.kind,
            expected=f"one of: {', '.join(fitting)}",
            fix=f"choose {whole[-1]}, or remove data.labels",
        )
    if data.classes:
        yield Problem(
            "labels of a list are those of the training images, in alphabetical order",
            path="data.classes",
            found=", ".join(data.classes),
            expected="no names beside data.labels.separator",
            fix="remove data.classes",
        )
    if isinstance(data.sampling, Balanced):
        yield Problem(
            "balanced goes by the one class of an image",
            path="data.sampling.kind",
            found="balanced, beside data.labels.separator",
            expected="a way that does not go by classes",
            fix="remove data.sampling",
        )


def _without_separator(contract: Contract, data: ImageData) -> Iterator[Problem]:
    if data.labels.empty == "none":
        yield Problem(
            "only images with a list of labels may have none",
            path="data.labels.empty",
            found="none, without data.labels.separator",
            expected="a separator of the labels, or missing",
            fix='write data.labels: {separator: ";", empty: none}, or remove data.labels',
        )
    elif contract.task == "multilabel":
        yield Problem(
            "what stands between two labels of an image is not said",
            path="task",
            found="multilabel, without data.labels.separator",
            expected="a separator of the labels",
            fix='write data.labels: {separator: ";"}, or remove task',
        )


IMAGE_RULES = (images_in_folds_stand_together, images_fit_their_limit, labels_of_images)
"""All of them, for the rules of each kind of data."""
