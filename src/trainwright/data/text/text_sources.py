"""Sources of a text, each split by position: its beginning trains, its end tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from trainwright.contract.sections.data.data_traits import Mixture
from trainwright.contract.sections.data.tokens import TokenData
from trainwright.core.errors import DataMistake, Place, Problem
from trainwright.data.base.inputs import Integers, PartName
from trainwright.data.base.token_inputs import Sources
from trainwright.data.sampling.build_sampler import check_shares
from trainwright.data.text.documents import SourceSize

PARTS: tuple[PartName, ...] = ("train", "validation", "test")
_FEWEST_TOKENS = 64
_MOST_PROBLEMS = 6


@final
@dataclass(frozen=True, slots=True)
class TextSource:
    """One source: name, start, and the (exclusive) end of each part. An unmixed text is one unnamed
    source."""

    name: str
    start: int
    ends: Mapping[PartName, int]

    def bounds(self, part: PartName) -> tuple[int, int]:
        """Bounds of a part."""
        before = (self.start, *self.ends.values())
        return before[PARTS.index(part)], self.ends[part]

    def sizes(self) -> dict[PartName, int]:
        """Token counts of the parts."""
        bounds = {part: self.bounds(part) for part in PARTS}
        return {part: end - start for part, (start, end) in bounds.items()}


def split_documents(
    stops: Integers, found: Sequence[SourceSize], section: TokenData
) -> tuple[TextSource, ...]:
    """Split each source of a text by position; documents end at `stops` [D].

    Raises:
        DataMistake: a source has too little text for a part, or a weight is missing.
    """
    check_sources(section, found)
    sources: list[TextSource] = []
    start = first = 0
    for name, documents in found or [SourceSize("", len(stops))]:
        inside = stops[first : first + documents] - start
        ends = _at_ends(part_ends(int(inside[-1]), section), inside)
        sources.append(TextSource(name, start, {part: start + end for part, end in ends.items()}))
        start, first = start + int(inside[-1]), first + documents
    check_lengths(sources)
    return tuple(sources)


def check_sources(section: TokenData, found: Sequence[SourceSize]) -> None:
    """Check that a mixture has the sources that its weights name.

    Raises:
        DataMistake: it has not.
    """
    if isinstance(section.sampling, Mixture):
        check_shares(section.sampling, [source.name for source in found])


def part_ends(tokens: int, section: TokenData) -> dict[PartName, int]:
    """Exclusive end of each part."""
    test = tokens - round(tokens * section.test)
    return {
        "train": test - round(tokens * section.validation),
        "validation": test,
        "test": tokens,
    }


def check_lengths(sources: Sequence[TextSource]) -> None:
    """Check that every part of every source is long enough.

    Raises:
        DataMistake: one is not.
    """
    problems = [
        Problem(
            f"too little text{f' of {source.name!r}' if source.name else ''} for the {part} part",
            path="data.path" if part == "train" else f"data.{part}",
            found=f"{size:,} of {source.ends['test'] - source.start:,} tokens",
            expected=f"at least {_FEWEST_TOKENS}",
            fix="give a longer text" if part == "train" else "raise the share, or a longer text",
        )
        for source in sources
        for part, size in source.sizes().items()
        if size < _FEWEST_TOKENS
    ]
    if problems:
        raise DataMistake(problems[:_MOST_PROBLEMS])


def check_documents(sources: Sequence[TextSource], begins: Integers, section: TokenData) -> None:
    """Check that every source has several documents if windows keep them separate.

    Raises:
        DataMistake: a source is one document, which would span several parts.
    """
    if section.windows == "across":
        return
    counts = np.bincount(source_starts(sources).of(begins), minlength=len(sources))
    for source, count in zip(sources, counts, strict=True):
        if count < 2:
            verb = "pack" if section.windows == "packed" else "pad"
            of = f" of {source.name!r}" if source.name else ""
            raise DataMistake(
                Problem(
                    f"there are no documents{of} to {verb}",
                    path="data.windows",
                    found="one document",
                    expected="a file or a row for each document"
                    if of
                    else "a separator between documents, or a token file with several",
                    fix="divide it into documents, or remove windows"
                    if of
                    else 'write for example data.separator: "\\n\\n", or remove windows',
                    place=Place(section.path),
                )
            )


def source_starts(sources: Sequence[TextSource]) -> Sources:
    """Start positions and names."""
    starts = np.array([source.start for source in sources], dtype=np.int64)
    return Sources(starts, tuple(source.name for source in sources))


def _at_ends(ends: dict[PartName, int], stops: Integers) -> dict[PartName, int]:
    """Move the end of each part to the last complete document, except for a single document. If a
    long document leaves the validation part empty, it becomes that part; or the preceding document
    does, if it is the last one.
    """
    if len(stops) < 2:
        return ends
    whole = {name: stops[stops <= end] for name, end in ends.items()}
    found = {name: int(stops[-1]) if len(stops) else 0 for name, stops in whole.items()}
    few = found["validation"] - found["train"] < _FEWEST_TOKENS
    if few and ends["validation"] - ends["train"] >= _FEWEST_TOKENS:
        until = found["test"] - _FEWEST_TOKENS
        later = stops[(stops >= found["train"] + _FEWEST_TOKENS) & (stops <= until)]
        earlier = stops[stops <= found["validation"] - _FEWEST_TOKENS]
        if len(later):
            found["validation"] = int(later[0])
        elif len(earlier):
            found["train"] = int(earlier[-1])
    return found
