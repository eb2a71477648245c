"""Regular expressions of the contract, matched in linear time."""

from __future__ import annotations

import polars as pl

from trainwright.core.errors import ContractMistake, Problem


def whole_matches(words: pl.Series, pattern: str, path: str) -> pl.Series:
    """Full match of each word with the pattern; null stays null.

    Raises:
        ContractMistake: the engine does not support the pattern, or it is too large; `path` is its
            contract path.
    """
    try:
        return words.str.contains(f"^(?:{pattern})$")
    except pl.exceptions.ComputeError as error:
        raise ContractMistake(_unknown(pattern, path, str(error))) from None


def problem_with_pattern(pattern: str, path: str) -> Problem | None:
    """The engine's objection to a pattern, if any."""
    try:
        whole_matches(pl.Series([""], dtype=pl.String), pattern, path)
    except ContractMistake as mistake:
        return mistake.problems[0]
    return None


def _unknown(pattern: str, path: str, said: str) -> Problem:
    before = said.partition("This error occurred")[0].strip().splitlines()
    reason = before[-1].removeprefix("error: ") if before else said
    return Problem(
        "the pattern cannot be matched in linear time",
        path=path,
        found=f"{pattern[:200]!r}: {reason.removeprefix('regex error: ')[:200]}",
        expected="a regular expression without look-around and back-references",
        fix=f"write it without them, or list the values in {path.removesuffix('pattern')}allowed",
    )
