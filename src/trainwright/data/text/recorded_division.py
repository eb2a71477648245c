"""Division of a text as a token file records it: sources and ends of their parts.

A text is divided by its characters, a token file by its tokens. What `data tokenize` writes says
where the parts of the text ended, on whose training part the vocabulary was fitted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trainwright.contract.sections.data.data_traits import Mixture
from trainwright.contract.sections.data.tokens import TokenData
from trainwright.core.errors import DataMistake, Place, Problem
from trainwright.core.files import Json
from trainwright.data.text.documents import SourceSize
from trainwright.data.text.text_sources import PARTS, TextSource, check_sources

_KEY = "division"


def division_json(sources: Sequence[TextSource], section: TokenData) -> dict[str, Json]:
    """Entry in the header of a token file."""
    each = [[one.name, one.start, *one.ends.values()] for one in sources]
    shares = {"validation": section.validation, "test": section.test}
    return {_KEY: {**shares, "sources": each}}


def read_division(
    about: Mapping[str, Json], length: int, section: TokenData
) -> tuple[TextSource, ...]:
    """Sources in the header of a token file of `length` tokens; none if it does not say.

    Raises:
        DataMistake: the contract divides otherwise, or the entry is damaged.
    """
    if _KEY not in about:
        return ()
    try:
        found = about[_KEY]
        shares = {part: float(found[part]) for part in ("validation", "test")}
        sources = tuple(_source(one) for one in found["sources"])
        _check_order(sources, length)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise _damaged(section, str(error)) from error
    if shares != {"validation": section.validation, "test": section.test}:
        raise _divided_otherwise(section, shares)
    named = [SourceSize(one.name, 0) for one in sources if one.name]
    if named and not isinstance(section.sampling, Mixture):
        raise _not_mixed(section, len(named))
    if named:
        check_sources(section, named)
    return sources


def _source(entry: Json) -> TextSource:
    name, start, *ends = entry
    if not isinstance(name, str) or len(ends) != len(PARTS):
        raise ValueError("a source has a name, a start and three ends")
    return TextSource(name, int(start), dict(zip(PARTS, map(int, ends), strict=True)))


def _check_order(sources: Sequence[TextSource], length: int) -> None:
    places = [0]
    for one in sources:
        if one.start != places[-1]:
            raise ValueError("its sources do not follow each other")
        places += one.ends.values()
    if not sources or places != sorted(places) or places[-1] != length:
        raise ValueError("its parts do not follow each other")


def _damaged(section: TokenData, why: str) -> DataMistake:
    return DataMistake(
        Problem(
            f"the token file is not whole: its division cannot be read ({why})",
            path="data.path",
            fix="write it again from its text",
            place=Place(section.path),
        )
    )


def _not_mixed(section: TokenData, sources: int) -> DataMistake:
    return DataMistake(
        Problem(
            "each source of the token file has parts of its own",
            path="data.sampling",
            found=f"{section.sampling.kind}, and a file of {sources} sources",
            expected="a mixture, as the file was written for",
            fix="write the sampling of the file, or tokenize the text again",
            place=Place(section.path),
        )
    )


def _divided_otherwise(section: TokenData, shares: Mapping[str, float]) -> DataMistake:
    written = ", ".join(f"{part} {share:g}" for part, share in shares.items())
    return DataMistake(
        Problem(
            "the token file was written for another division of its text",
            path="data.validation",
            found=f"validation {section.validation:g}, test {section.test:g}",
            expected=f"{written}: its vocabulary knows the training part of these",
            fix="write the shares of the file, or tokenize the text again",
            place=Place(section.path),
        )
    )
