"""Tokens of the data beside those of a decoder's base."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.contract.sections.model.pretrained import Base
from trainwright.core.errors import Problem
from trainwright.core.hashing import hash_bytes
from trainwright.data.encoders.vocabulary import TokenEncoding


def token_problems(
    architecture: str, rows: int, base: Base | str, tokens: TokenEncoding
) -> Iterator[Problem]:
    """The embedding of so many `rows` (0: any) has one for each token, and weights of a base need
    its own tokenizer."""
    vocabulary = tokens.vocabulary
    if 0 < rows < vocabulary.size:
        yield Problem(
            "the data has tokens that the model does not know",
            path="model.vocabulary",
            found=f"{rows:,} rows of the embedding, {vocabulary.size:,} tokens",
            expected=f"at least {vocabulary.size:,}",
            fix=f"use the tokenizer of {architecture}" if architecture else "remove vocabulary",
        )
    if isinstance(base, str) or not base.weights:
        return
    symbols = hash_bytes(vocabulary.symbols.encode())
    if vocabulary.kind != "subwords" or symbols != base.tokenizer:
        yield _foreign_tokenizer(architecture, base, tokens)


def _foreign_tokenizer(architecture: str, base: Base, tokens: TokenEncoding) -> Problem:
    """The tokens are not those of the base; preferences have no vocabulary to choose, and need the
    weights."""
    own = f"data.tokenizer: {architecture}/tokenizer.json"
    fix = f"write data.vocabulary: tokenizer and {own}, or model.weights: none"
    return Problem(
        "the weights of the base need its own tokenizer",
        path="data.tokenizer" if tokens.has_tokenizer else "data.vocabulary",
        found=f"a vocabulary of {tokens.vocabulary.size:,} {tokens.vocabulary.kind}",
        expected=f"the tokenizer.json of {architecture}"
        if base.tokenizer
        else "a base with a tokenizer.json",
        fix=f"write {own}" if tokens.has_tokenizer else fix,
    )
