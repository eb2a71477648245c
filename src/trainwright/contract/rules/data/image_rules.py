"""Rules on images: alone, in pairs with texts, or with captions to write."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trainwright.contract.document import Contract
from trainwright.contract.rules.data.text_rules import tokenizer_problems
from trainwright.contract.sections.data.captions import CaptionData
from trainwright.contract.sections.data.data import fold_count
from trainwright.contract.sections.data.data_traits import Balanced
from trainwright.contract.sections.data.images import Decoding, ImageData
from trainwright.contract.sections.data.pairs import PairData, PictureTable
from trainwright.contract.sections.data.text_pairs import TextPairData
from trainwright.contract.sections.metric import METRICS
from trainwright.contract.sections.model import kinds_with
from trainwright.contract.sections.training.objective import AutoLoss, Contrastive
from trainwright.core.errors import Problem

_OF_DECODER = ("kind", "adapter", "dropout")
_START = "model.start"


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


def columns_are_apart(
    _contract: Contract, data: PictureTable, _written: frozenset[str]
) -> Iterator[Problem]:
    """Image, caption and group are three columns."""
    yield from columns_named_twice(
        (("image", data.image), ("caption", data.caption), ("group", data.group))
    )


def columns_named_twice(columns: Sequence[tuple[str, str]]) -> Iterator[Problem]:
    """No column is named by two keys of `data`."""
    seen: dict[str, str] = {}
    for key, name in columns:
        if name and name in seen:
            yield Problem(
                f"the column {name!r} is named twice",
                path=f"data.{key}",
                found=name,
                expected=f"another column than {seen[name]}",
                fix="name the column of each",
            )
        seen.setdefault(name, f"data.{key}")


def images_are_whole(
    _contract: Contract, data: PictureTable, _written: frozenset[str]
) -> Iterator[Problem]:
    """A blend of two images has no caption."""
    for key in ("mixup", "cutmix"):
        if getattr(data.augment, key):
            yield Problem(
                "a blend of two images has no caption",
                path=f"data.augment.{key}",
                found=f"{getattr(data.augment, key):g}",
                expected="0",
                fix=f"remove {key}",
            )


def pixels_fit_their_limit(
    _contract: Contract, data: PictureTable, _written: frozenset[str]
) -> Iterator[Problem]:
    """As `check_pixel_limit`."""
    yield from check_pixel_limit(data.decoding)


def step_is_whole(
    contract: Contract, _data: PairData | TextPairData, _written: frozenset[str]
) -> Iterator[Problem]:
    """The loss is over all pairs of a step: what sees a micro-batch alone does not go with it."""
    training = contract.training
    if not isinstance(training.loss, AutoLoss | Contrastive):
        yield Problem(
            f"{training.loss.name} is no loss of a retrieval",
            path="training.loss.name",
            found=training.loss.name,
            expected="contrastive",
            fix="change it, or remove training.loss",
        )
    refused = [
        ("training.memory.update", training.memory.update == "in_backward", "in_backward"),
        ("training.compute.compile", training.compute.compile == "on", "on"),
    ]
    windows = contract.tracking.windows
    if windows != "off":
        measured = windows.noise_scale != "off"
        refused.append(("tracking.windows.noise_scale", measured, str(windows.noise_scale)))
    for path, is_written, found in refused:
        if is_written:
            yield Problem(
                "the loss is over all pairs of a step, and this sees one micro-batch",
                path=path,
                found=found,
                fix=f"remove {path.rpartition('.')[2]}",
            )


def tokens_are_those_of_one(
    contract: Contract, _data: PairData | TextPairData, written: frozenset[str]
) -> Iterator[Problem]:
    """A base of texts brings its tokens."""
    if contract.model.has_own_tokens and any(
        f"{path}.".startswith("data.tokens.") for path in written
    ):
        yield Problem(
            "the encoder of texts has tokens of its own",
            path="data.tokens",
            found="data.tokens beside model.text of kind pretrained",
            expected="model.text.max_length for the length of a caption",
            fix="remove data.tokens",
        )


def metrics_are_of_its_side(
    contract: Contract, data: PairData | TextPairData, _written: frozenset[str]
) -> Iterator[Problem]:
    """Metrics of passages are of text pairs, the others of images and captions."""
    named = [("metric.name", contract.metric.name)]
    named += [(f"slices.{at}.metric", one.metric) for at, one in enumerate(contract.slices)]
    stopping = contract.training.early_stopping
    if stopping != "off":
        watched = stopping.metric.removeprefix("val_")
        named.append(("training.early_stopping.metric", watched))
    own, unfit = ("passages", "images") if data.is_one_way else ("images", "passages")
    fitting = [name for name, fact in METRICS.items() if fact.of == own]
    for path, name in named:
        if name in METRICS and METRICS[name].of == unfit:
            prefix = "val_" if path.startswith("training.") else ""
            yield Problem(
                f"{name} is no metric of data of kind {data.kind}",
                path=path,
                found=prefix + name,
                expected=f"one of: {', '.join(prefix + one for one in fitting)}",
                fix=f"change it to {prefix}{fitting[0]}",
            )


PAIR_RULES = (
    columns_are_apart,
    metrics_are_of_its_side,
    images_are_whole,
    pixels_fit_their_limit,
    step_is_whole,
    tokens_are_those_of_one,
)
"""All of them, for the rules of each kind of data."""


def tokenizer_is_named(
    _contract: Contract, data: CaptionData, _written: frozenset[str]
) -> Iterator[Problem]:
    """A tokenizer is named where it is used."""
    yield from tokenizer_problems(data.vocabulary, data.tokenizer)


def question_is_apart(
    _contract: Contract, data: CaptionData, _written: frozenset[str]
) -> Iterator[Problem]:
    """What is asked is not what is answered."""
    yield from columns_named_twice((("caption", data.caption), ("question", data.question)))


def something_ends(
    _contract: Contract, data: CaptionData, _written: frozenset[str]
) -> Iterator[Problem]:
    """A token stands before each caption, and one behind it."""
    for key, text in (("prompt", data.prompt or data.question), ("end", data.end)):
        if not text:
            yield Problem(
                f"nothing stands {'before' if key == 'prompt' else 'behind'} a caption",
                path=f"data.{key}",
                found="an empty text",
                expected="at least one token",
                fix=f"remove {key}",
            )


def widths_are_not_compiled(
    contract: Contract, _data: CaptionData, _written: frozenset[str]
) -> Iterator[Problem]:
    """Batches are as wide as their longest caption."""
    if contract.training.compute.compile == "on":
        yield Problem(
            "each width of a batch would be compiled by itself",
            path="training.compute.compile",
            found="on",
            expected="off",
            fix="remove compile",
        )


def start_has_its_shape(
    _contract: Contract, _data: CaptionData, written: frozenset[str]
) -> Iterator[Problem]:
    """Beside an earlier stage only what may change is written."""
    if _START not in written:
        return
    keys = sorted(path for path in written if path.count(".") == 2)
    for path in keys:
        _, part, key = path.split(".")
        if not path.startswith(("model.image.", "model.projector.", "model.decoder.")):
            continue
        if part == "decoder" and key in _OF_DECODER:
            continue
        yield Problem(
            "the earlier stage gives the shape of the model",
            path=path,
            found=f"{path.rpartition('.')[2]} beside {_START}",
            expected=f"{_START} alone; of model.decoder {', '.join(_OF_DECODER[1:])}",
            fix=f"remove {path}",
        )


CAPTION_RULES = (
    columns_are_apart,
    question_is_apart,
    images_are_whole,
    pixels_fit_their_limit,
    tokenizer_is_named,
    something_ends,
    widths_are_not_compiled,
    start_has_its_shape,
)
"""All of them, for the rules of each kind of data."""
