"""New rows and texts for the model of a run, read like the training data or with overrides."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from pydantic import ValidationError

from trainwright.contract.document import Contract
from trainwright.contract.reading.overrides import set_values
from trainwright.contract.reading.validation_errors import problems_of_shape
from trainwright.contract.reading.yaml_reader import ParsedYaml
from trainwright.contract.rules.data.source_rules import separator_is_one_mark
from trainwright.contract.sections.data.sources import USUAL, Reading
from trainwright.core.errors import ContractMistake, Place, Problem

_READING = "data.reading."
_BAD_RECORDS = f"{_READING}bad_records"


def reading_of(contract: Contract, overrides: Sequence[str]) -> Reading:
    """How to read a file for the model of a contract: according to `data.reading`, with `overrides`
    such as `data.reading.encoding=cp1252`. The cache of the contract is not used.

    Raises:
        ContractMistake: an override outside `data.reading`, or an invalid one.
    """
    others = [text for text in overrides if not text.strip().startswith(_READING)]
    images = "reading" not in type(contract.data).model_fields
    if others or (images and overrides):
        raise ContractMistake(_not_here((others or list(overrides))[0], images=images))
    if images:
        return USUAL
    written, _ = set_values(ParsedYaml(contract.model_dump(mode="json"), {}), overrides)
    try:
        changed = Contract.model_validate_json(json.dumps(written.value, allow_nan=False))
    except ValidationError as error:
        raise ContractMistake(problems_of_shape(Contract, written.value, error)) from None
    if problems := list(separator_is_one_mark(changed, frozenset())):
        raise ContractMistake(problems)
    reading = changed.data.file_reading
    away = reading.cache == "off" or Path(reading.cache).is_absolute()
    return reading if away else reading.model_copy(update={"cache": USUAL.cache})


def whole_reading_of(contract: Contract, overrides: Sequence[str]) -> Reading:
    """As `reading_of`, but without excluding records: every row of the file gets a prediction.

    Raises:
        ContractMistake: as `reading_of`, or an override asks to exclude records.
    """
    if asked := [text for text in overrides if text.strip().startswith(_BAD_RECORDS)]:
        raise ContractMistake(
            Problem(
                "a prediction stands for each row, so none can be skipped",
                path=_BAD_RECORDS,
                fix="repair the rows, or take them out of the file",
                place=Place(f"--set {asked[0]}"),
            )
        )
    return reading_of(contract, overrides).model_copy(update={"bad_records": 0})


def _not_here(text: str, *, images: bool) -> Problem:
    return Problem(
        "the model of a run is used as it was made",
        path=text.partition("=")[0].strip(),
        expected="nothing: images are read as those of the training"
        if images
        else f"a path that begins with {_READING}",
        fix="leave it out" if images else f"write for example --set {_READING}encoding=cp1252",
        place=Place(f"--set {text}"),
    )
