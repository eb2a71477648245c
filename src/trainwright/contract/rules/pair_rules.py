"""Rules on image-text pairs."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.contract.document import Contract
from trainwright.contract.sections.data.pairs import PairData
from trainwright.contract.sections.training.objective import AutoLoss, Contrastive
from trainwright.core.errors import Problem


def columns_are_apart(
    _contract: Contract, data: PairData, _written: frozenset[str]
) -> Iterator[Problem]:
    """Image, caption and group are three columns."""
    seen = {data.image: "data.image"}
    for key, name in (("caption", data.caption), ("group", data.group)):
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
    _contract: Contract, data: PairData, _written: frozenset[str]
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
    _contract: Contract, data: PairData, _written: frozenset[str]
) -> Iterator[Problem]:
    """Images are not made larger than those that are refused for their size."""
    decoding = data.decoding
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


def step_is_whole(
    contract: Contract, _data: PairData, _written: frozenset[str]
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
    contract: Contract, _data: PairData, written: frozenset[str]
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


PAIR_RULES = (
    columns_are_apart,
    images_are_whole,
    pixels_fit_their_limit,
    step_is_whole,
    tokens_are_those_of_one,
)
"""All of them, for the rules of each kind of data."""
