"""Detection of columns whose numbers are written with commas."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from trainwright.contract.sections.data.sources import Reading
from trainwright.data.formats.file_format import known_format
from trainwright.data.formats.number_formats import Commas, Look, how_written
from trainwright.data.sources.find_source import read_source
from trainwright.planner.init.yaml_lines import scalar

_SURE: Mapping[Look, tuple[Commas, str]] = {
    "decimal_comma": ("decimal_comma", "1,5 is 1.5"),
    "thousands_comma": ("thousands_comma", "1,234.5 is 1234.5"),
    "accounting": ("accounting", "(1,234.5) is -1234.5"),
}
_IN_DOUBT: Mapping[tuple[Commas, Look], str] = {
    ("decimal_comma", "either"): "1,234 is 1.234; thousands_comma would make it 1234",
    ("decimal_comma", "points"): "1.234 is 1234; without this line it is 1.234",
    ("thousands_comma", "either"): "1,234 is 1234; decimal_comma would make it 1.234",
}


def with_numbers(
    folder: Path, found: str, reading: Reading, lines: tuple[str, ...]
) -> tuple[Reading, tuple[str, ...]]:
    """A reading and its lines in the contract, with the columns whose numbers have commas.

    An ambiguous column is read like the others if they agree, and its line says so; if they do not,
    it is reported as doubtful.
    """
    source = read_source(found, folder, "DATA", reading)
    if not known_format(source.files[0].path):
        return reading, lines
    looks = {name: how_written(source.frame[name]) for name in source.frame.columns}
    known = {name: _SURE[look] for name, look in looks.items() if look in _SURE}
    ways = {"thousands_comma" if way == "accounting" else way for way, _ in known.values()}
    for name, look in looks.items():
        for way in ways if len(ways) == 1 else ():
            if why := _IN_DOUBT.get((way, look)):
                known[name] = way, f"in doubt, taken to be like the others: {why}"
    if known:
        written = [f"      {scalar(name)}: {way}  # {why}" for name, (way, why) in known.items()]
        lines = (*(lines or ("  reading:",)), "    numbers:", *written)
    numbers = {**{name: way for name, (way, _) in known.items()}, **reading.numbers}
    return reading.model_copy(update={"numbers": numbers}), lines
