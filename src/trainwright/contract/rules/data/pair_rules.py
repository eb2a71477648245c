"""Rules on image-text pairs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trainwright.contract.document import Contract
from trainwright.contract.rules.data.image_rules import check_pixel_limit
from trainwright.contract.sections.data.pairs import PairData, PictureTable
from trainwright.contract.sections.data.text_pairs import TextPairData
from trainwright.contract.sections.metric import METRICS
from trainwright.contract.sections.training.objective import AutoLoss, Contrastive
from trainwright.core.errors import Problem


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
