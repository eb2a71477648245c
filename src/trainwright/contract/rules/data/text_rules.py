"""Rules on texts: tokens and windows, chats."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.contract.document import Contract
from trainwright.contract.rules.data.source_rules import no_source_column
from trainwright.contract.sections.data.chats import ChatData
from trainwright.contract.sections.data.data_traits import Mixture
from trainwright.contract.sections.data.tokens import TokenData, TokenFeeding
from trainwright.contract.sections.training.training import Training
from trainwright.core.errors import Problem

_MOST_COMPILED = 32
"""Widths of batches: each is compiled for seconds to minutes, for steps of several sizes."""


def vocabulary_is_whole(
    _contract: Contract, data: TokenFeeding, written: frozenset[str]
) -> Iterator[Problem]:
    """A tokenizer is named where it is used, and a size where one is made."""
    yield from tokenizer_problems(data.vocabulary, data.tokenizer)
    if "data.vocabulary_size" in written and data.vocabulary != "bpe":
        yield Problem(
            f"a vocabulary of {data.vocabulary} has its own size",
            path="data.vocabulary_size",
            found=str(data.vocabulary_size),
            expected="vocabulary: bpe beside it",
            fix="write vocabulary: bpe, or remove vocabulary_size",
        )


def tokenizer_problems(vocabulary: str, tokenizer: str) -> Iterator[Problem]:
    """A tokenizer is named where it is used, and nowhere else."""
    if vocabulary == "tokenizer" and not tokenizer:
        yield Problem(
            "no tokenizer is named",
            path="data.tokenizer",
            expected="the path of a tokenizer.json",
            fix="add tokenizer: tokenizer.json",
        )
    if tokenizer and vocabulary != "tokenizer":
        yield Problem(
            "the tokenizer has no effect",
            path="data.tokenizer",
            found=f"vocabulary {vocabulary}",
            expected="vocabulary: tokenizer beside it",
            fix="write vocabulary: tokenizer, or remove tokenizer",
        )


def packing_has_effect(
    contract: Contract, data: TokenFeeding, written: frozenset[str]
) -> Iterator[Problem]:
    """Only documents that are kept apart can be too long, or have an attention of their own."""
    if "data.long_documents" in written and data.windows == "across":
        yield Problem(
            "windows across documents cut none",
            path="data.long_documents",
            found=data.long_documents,
            expected="windows: packed or padded beside it",
            fix="write windows: packed, or remove long_documents",
        )
    inspect = contract.tracking.inspect
    if data.windows != "across" and inspect != "off" and "attention" in inspect.which:
        yield Problem(
            f"attention within {data.windows} documents is not inspected",
            path="tracking.inspect.which",
            found="attention",
            expected="windows across documents, or other looks",
            fix="leave attention out of tracking.inspect.which",
        )


def padding_has_effect(
    _contract: Contract, data: TokenFeeding, written: frozenset[str]
) -> Iterator[Problem]:
    """Only padded documents have widths, and buckets are shuffled."""
    is_written = any(path.startswith("data.padding") for path in written)
    if is_written and data.windows != "padded":
        yield Problem(
            f"{data.windows} windows have one length, so nothing is padded to the longest",
            path="data.padding",
            found=f"windows: {data.windows}",
            expected="windows: padded beside it",
            fix="write data.windows: padded, or remove padding",
        )
    if data.windows == "padded" and not data.shuffle and data.padding.buckets not in ("auto", 1):
        yield Problem(
            "documents that are visited as they lie cannot be drawn from buckets",
            path="data.padding.buckets",
            found=f"{data.padding.buckets} with shuffle: false",
            expected="1 or auto",
            fix="remove buckets, or shuffle",
        )


def padding_changes_widths(
    contract: Contract, data: TokenFeeding, _written: frozenset[str]
) -> Iterator[Problem]:
    """What is made for one width, or for few, does not go with batches of many."""
    model, training = contract.model, contract.training
    if data.windows != "padded" or not model.context_length:
        return
    if training.ramps.sequence != "off":
        yield Problem(
            "padded documents are not cut into shorter windows",
            path="training.ramps.sequence",
            found="windows: padded",
            expected="windows: across or packed",
            fix="remove training.ramps.sequence",
        )
    yield from _most_places(data, model.context_length, training)
    widths = -(-model.context_length // data.padding.multiple)
    if training.compute.compile == "on" and widths > _MOST_COMPILED:
        needed = -(-model.context_length // _MOST_COMPILED)
        yield Problem(
            "each width of a padded batch is compiled by itself",
            path="training.compute.compile",
            found=f"up to {widths} widths: multiples of {data.padding.multiple} up to "
            f"model.context {model.context_length}",
            expected=f"at most {_MOST_COMPILED}",
            fix=f"write data.padding.multiple: {needed} or more, or compile: off",
        )


def _most_places(data: TokenFeeding, context: int, training: Training) -> Iterator[Problem]:
    """A limit of places holds the longest document, and divides steps as it needs."""
    most = data.padding.max_tokens
    if most == "off":
        return
    path = "data.padding.max_tokens"
    if most < context:
        yield Problem(
            "a document as long as the context would not fit into a micro-batch",
            path=path,
            found=str(most),
            expected=f"at least model.context, which is {context}",
            fix=f"change it to {16 * context}",
        )
    if training.compute.compile == "on":
        yield Problem(
            "micro-batches of any number of rows are not compiled: each shape is by itself",
            path=path,
            found="compile: on",
            expected="off",
            fix="remove max_tokens, or compile",
        )
    if training.memory.update == "in_backward":
        yield Problem(
            "update: in_backward makes a step of one micro-batch",
            path=path,
            found="update: in_backward",
            expected="off",
            fix="remove max_tokens, or update",
        )


def check_text_sources(
    _contract: Contract, data: TokenData, _written: frozenset[str]
) -> Iterator[Problem]:
    """A mixture says where the names of its sources are, and documents are drawn in one way."""
    sampling = data.sampling
    if not isinstance(sampling, Mixture):
        return
    if data.text and not sampling.column:
        yield no_source_column()
    if sampling.column and not data.text:
        yield Problem(
            "files of texts have no columns",
            path="data.sampling.column",
            found=sampling.column,
            expected="nothing: what lies directly in the folder of texts are its sources",
            fix="remove column, or name in data.text the column of a table of texts",
        )
    if data.windows == "padded" and data.padding.buckets not in ("auto", 1):
        yield Problem(
            "documents that are drawn by their source are not drawn from buckets",
            path="data.padding.buckets",
            found=f"{data.padding.buckets} beside a mixture",
            expected="1 or auto",
            fix="remove buckets",
        )


TOKEN_RULES = (
    vocabulary_is_whole,
    packing_has_effect,
    padding_has_effect,
    padding_changes_widths,
    check_text_sources,
)
"""All of them, for the list of rules."""


def template_has_program(
    _contract: Contract, data: ChatData, _written: frozenset[str]
) -> Iterator[Problem]:
    """A tokenizer's own template needs the tokenizer."""
    if data.template == "tokenizer" and not data.tokenizer:
        yield Problem(
            "the template is that of a tokenizer, and none is named",
            path="data.template",
            found="template: tokenizer",
            expected="vocabulary: tokenizer and its file in data.tokenizer beside it",
            fix="write template: chatml, or name the tokenizer",
        )


def someone_answers(
    _contract: Contract, data: ChatData, _written: frozenset[str]
) -> Iterator[Problem]:
    """There is a role to learn."""
    if not data.loss_on:
        yield Problem(
            "no role is learned",
            path="data.loss_on",
            found="[]",
            expected="at least one role",
            fix="write data.loss_on: [assistant]",
        )


CHAT_RULES = (
    vocabulary_is_whole,
    packing_has_effect,
    padding_has_effect,
    padding_changes_widths,
    template_has_program,
    someone_answers,
)
"""All of them, for the list of rules."""
