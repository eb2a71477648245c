"""New rows and texts for the model of a run, read like the training data or with overrides."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pydantic import ValidationError

from trainwright.contract.document import Contract
from trainwright.contract.reading.overrides import set_values
from trainwright.contract.reading.validation_errors import problems_of_shape
from trainwright.contract.reading.yaml_reader import ParsedYaml
from trainwright.contract.rules.source_rules import separator_is_one_mark
from trainwright.contract.sections.images import ImageData
from trainwright.contract.sections.sampling import Mixture, Uniform
from trainwright.contract.sections.sources import USUAL, Reading
from trainwright.contract.sections.tokens import TokenData
from trainwright.core.errors import ContractMistake, DataMistake, Place, Problem
from trainwright.data.base.table import Part
from trainwright.data.encoders.vocabulary import TextVocabulary
from trainwright.data.formats.file_format import known_format
from trainwright.data.sources.data_source import FileVersion
from trainwright.data.text.documents import END, SourceSize, find_documents
from trainwright.data.text.prepare_text import text_part

_READING = "data.reading."
_BAD_RECORDS = f"{_READING}bad_records"


def reading_of(contract: Contract, overrides: Sequence[str]) -> Reading:
    """How to read a file for the model of a contract: according to `data.reading`, with `overrides`
    such as `data.reading.encoding=cp1252`. The cache of the contract is not used.

    Raises:
        ContractMistake: an override outside `data.reading`, or an invalid one.
    """
    others = [text for text in overrides if not text.strip().startswith(_READING)]
    images = isinstance(contract.data, ImageData)
    if others or (images and overrides):
        raise ContractMistake(_not_here((others or list(overrides))[0], images=images))
    if isinstance(contract.data, ImageData):
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
                "a prediction stands for each row, so that none is left out",
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


def new_text(
    data: str, vocabulary: TextVocabulary, section: TokenData, reading: Reading
) -> tuple[Part, tuple[FileVersion, ...]]:
    """A text, a folder of texts, or the contract's column of a table as a part for evaluation, and
    its source files. If the training mixed sources, the text is treated as one source.

    Raises:
        DataMistake: it cannot be read, or is a single token.
    """
    # A plain text has no columns, whatever the source of the training texts.
    column = section.text if Path(data).is_dir() or known_format(data) else ""
    told = section.model_copy(update={"path": data, "text": column, "reading": reading})
    alone: tuple[SourceSize, ...] = ()
    if isinstance(section.sampling, Mixture) and not (column or Path(data).is_dir()):
        told = told.model_copy(update={"sampling": Uniform()})
        alone = (SourceSize(Path(data).name, 1),)
    try:
        documents = find_documents(told, Path())
        text = "".join(documents.blocks())
    except DataMistake as mistake:
        raise DataMistake([_on_data(problem) for problem in mistake.problems]) from mistake
    if documents.several:
        told = told.model_copy(update={"separator": END})
    return text_part(text, vocabulary, told, documents.sources or alone), documents.files


def _on_data(problem: Problem) -> Problem:
    return replace(problem, path="DATA") if problem.path == "data.path" else problem
