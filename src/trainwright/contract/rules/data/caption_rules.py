"""Rules on images with captions to write."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.contract.document import Contract
from trainwright.contract.rules.data.pair_rules import (
    columns_are_apart,
    columns_named_twice,
    images_are_whole,
    pixels_fit_their_limit,
)
from trainwright.contract.rules.data.token_rules import tokenizer_problems
from trainwright.contract.sections.data.captions import CaptionData
from trainwright.core.errors import Problem

_OF_DECODER = ("kind", "adapter", "dropout")
_START = "model.start"


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
