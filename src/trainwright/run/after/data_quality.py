"""Data quality checks of a file or a contract."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import assert_never

import numpy as np

from trainwright.contract.reading.read_contract import Document, read_contract
from trainwright.contract.reading.yaml_reader import read_yaml
from trainwright.contract.sections.data import TableData
from trainwright.contract.sections.images import ImageData
from trainwright.contract.sections.sources import Reading
from trainwright.contract.sections.tokens import TokenData
from trainwright.core.errors import Mistake
from trainwright.data.audit.audit_result import AuditResult, findings_beside
from trainwright.data.base.table import Integers
from trainwright.data.dispatch import prepare, read_data
from trainwright.data.images.prepare_images import prepare_images, read_images
from trainwright.data.images.raw_images import RawImages
from trainwright.data.images.resolve_source import holds_idx
from trainwright.data.quality.content.document_quality import document_faults, document_parts
from trainwright.data.quality.content.image_quality import divided_images, examine_images
from trainwright.data.quality.finding import Finding, worst_first
from trainwright.data.quality.read_unchecked import divided, examine_prepared, examine_table
from trainwright.data.quality.run_checks import Effort, find_faults, find_image_faults, unanswered
from trainwright.data.quality.views import ExaminedData
from trainwright.data.read_table import RawTable
from trainwright.data.text.prepare_text import read_tokens
from trainwright.data.types import Prepared
from trainwright.planner.init.first_contract import is_table, located
from trainwright.planner.init.guess_format import read_first
from trainwright.planner.init.guess_numbers import with_numbers
from trainwright.planner.init.propose_images import are_images, propose_images
from trainwright.planner.plan import plan
from trainwright.planner.read_device import read_device
from trainwright.run.audit_data import audit_prepared
from trainwright.run.prepare_run import decided_task

Tell = Callable[[str], None]


def file_findings(source: str, target: str, effort: Effort, tell: Tell) -> tuple[Finding, ...]:
    """Findings of a file, a folder, a pattern or a URL, read with the contract that `init` would
    propose. Without a target, classes, labels and leaks of a table are not checked.

    Raises:
        DataMistake: the data is missing, damaged or not of the format its name says, or lacks the
            column.
    """
    folder, found, _ = located(source, Path())
    # A table that names images is checked as a table; a contract for images checks the images.
    tabular = is_table(source, folder / found)
    if not tabular and are_images(folder / found):
        return _image_faults(_proposed_images(folder / found, target), folder, effort)
    if not tabular and not target:
        section = TokenData(kind="tokens", path=found)
        return document_faults(section, folder, quick=effort == "quick", tell=tell)
    first = read_first(folder, found, Reading(), target)
    reading, _ = with_numbers(folder, found, first.reading, ())
    table = TableData(path=found, target=target or TableData().target, reading=reading)
    data = examine_table(table, folder, targeted=bool(target))
    return find_faults(data, table.columns, effort, tell)


def _proposed_images(place: Path, target: str) -> ImageData:
    """How `init` would read images; unreadable ones are counted."""
    written = read_yaml(propose_images(place, target, place.parent).encode(), "DATA").value
    assert isinstance(written, dict), "a contract is a mapping"
    section = ImageData.model_validate_json(json.dumps(written["data"]))
    if holds_idx(place):
        # Images of these formats have a fixed size in bytes, and can always be read.
        return section
    drop = section.decoding.model_copy(update={"corrupt": "drop"})
    return section.model_copy(update={"decoding": drop})


def _image_faults(section: ImageData, folder: Path, effort: Effort) -> tuple[Finding, ...]:
    raw = read_images(section, folder)
    return find_image_faults(raw, examine_images(raw), effort)


def check_contract_data(path: Path, target: str, effort: Effort, tell: Tell) -> tuple[Finding, ...]:
    """Findings of all files of a contract, split as it says if possible.

    Raises:
        Mistake: in the contract, or in a file as a whole; problems of single columns are findings.
    """
    document = read_contract(path, [f"data.target={target}"] if target else [])
    section = document.contract.data
    match section:
        case TableData():
            data = examine_table(section, document.source.folder)
            data, audited = _divided(document, section, data, tell)
            faults = find_faults(data, section.columns, effort, tell, audited=bool(audited))
            faults = unanswered(faults, section.split)
            return worst_first((*faults, *findings_beside(audited, faults)))
        case ImageData():
            raw = read_data(section, document.source.folder)
            assert isinstance(raw, RawImages)
            return find_image_faults(raw, _divided_images(document, section, raw, tell), effort)
        case TokenData():
            folder, quick = document.source.folder, effort == "quick"
            parts = _parts_of_documents(section, folder, tell)
            return document_faults(section, folder, parts, quick=quick, tell=tell)
        case _:
            assert_never(section)


def _parts_of_documents(section: TokenData, folder: Path, tell: Tell) -> Integers:
    """Part of each document; None if they cannot be split yet."""
    try:
        return document_parts(read_tokens(section, folder))
    except Mistake as mistake:
        tell(f"faults in undivided documents, since they cannot be divided: {mistake.problems[0]}")
        return np.empty(0, dtype=np.int64)


def _divided_images(
    document: Document, section: ImageData, raw: RawImages, tell: Tell
) -> ExaminedData:
    """Images with their parts; without parts if they cannot be split yet."""
    data = examine_images(raw)
    try:
        return divided_images(data, raw, prepare_images(raw, section, document.contract.split_seed))
    except Mistake as mistake:
        tell(f"faults in undivided images, since they cannot be divided: {mistake.problems[0]}")
        return data


def _divided(
    document: Document, section: TableData, data: ExaminedData, tell: Tell
) -> tuple[ExaminedData, tuple[AuditResult, ...]]:
    """Rows with their parts, and their audit; unsplit and without an audit if the data cannot be
    prepared yet."""
    try:
        raw = read_data(section, document.source.folder)
        decided = plan(document, raw.facts, read_device(False)).contract
        prepared: Prepared = prepare(raw, decided.data, decided_task(decided), decided.split_seed)
    except Mistake as mistake:
        tell(f"faults in undivided rows, since they cannot be divided: {mistake.problems[0]}")
        return data, ()
    assert isinstance(raw, RawTable)
    audited = audit_prepared(decided, raw, prepared)
    return divided(data, examine_prepared(raw, prepared, section)), audited
