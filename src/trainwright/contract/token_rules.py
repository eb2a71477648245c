"""Rules on how a text becomes tokens and windows."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.contract.document import Contract
from trainwright.contract.tokens import TokenData
from trainwright.core.errors import Problem


def vocabulary_is_whole(contract: Contract, written: frozenset[str]) -> Iterator[Problem]:
    """A tokenizer is named where it is used, and a size where one is made."""
    data = contract.data
    if not isinstance(data, TokenData):
        return
    if data.vocabulary == "tokenizer" and not data.tokenizer:
        yield Problem(
            "no tokenizer is named",
            path="data.tokenizer",
            expected="the path of a tokenizer.json",
            fix="add tokenizer: tokenizer.json",
        )
    if data.tokenizer and data.vocabulary != "tokenizer":
        yield Problem(
            "the tokenizer has no effect",
            path="data.tokenizer",
            found=f"vocabulary {data.vocabulary}",
            expected="vocabulary: tokenizer beside it",
            fix="write vocabulary: tokenizer, or remove tokenizer",
        )
    if "data.vocabulary_size" in written and data.vocabulary != "bpe":
        yield Problem(
            f"a vocabulary of {data.vocabulary} has its own size",
            path="data.vocabulary_size",
            found=str(data.vocabulary_size),
            expected="vocabulary: bpe beside it",
            fix="write vocabulary: bpe, or remove vocabulary_size",
        )


def packing_has_effect(contract: Contract, written: frozenset[str]) -> Iterator[Problem]:
    """Only packed windows have documents that are too long, or attention within documents."""
    data = contract.data
    if not isinstance(data, TokenData):
        return
    if "data.long_documents" in written and data.windows != "packed":
        yield Problem(
            "windows across documents cut none",
            path="data.long_documents",
            found=data.long_documents,
            expected="windows: packed beside it",
            fix="write windows: packed, or remove long_documents",
        )
    inspect = contract.tracking.inspect
    if data.windows == "packed" and inspect != "off" and "attention" in inspect.which:
        yield Problem(
            "attention within packed documents is not inspected",
            path="tracking.inspect.which",
            found="attention",
            expected="windows across documents, or other looks",
            fix="leave attention out of tracking.inspect.which",
        )


def packing_needs_no_workers(contract: Contract, _written: frozenset[str]) -> Iterator[Problem]:
    """The targets of packed windows are counted on the host, where the training process makes
    them; from a worker they would come back from the device, and each step would wait for them."""
    data = contract.data
    packed = isinstance(data, TokenData) and data.windows == "packed"
    if packed and data.num_workers not in ("auto", 0):
        yield Problem(
            "packed windows are gathered by the training process",
            path="data.num_workers",
            found=str(data.num_workers),
            expected="0 or auto",
            fix="remove num_workers",
        )


TOKEN_RULES = (vocabulary_is_whole, packing_has_effect, packing_needs_no_workers)
"""All of them, for the list of rules."""
