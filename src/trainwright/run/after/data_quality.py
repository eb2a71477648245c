"""Data quality checks of a file or a contract."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from trainwright.contract.reading.read_contract import Document, read_contract
from trainwright.contract.reading.yaml_reader import read_yaml
from trainwright.contract.sections.data import TableData
from trainwright.contract.sections.images import ImageData
from trainwright.contract.sections.sources import Reading
from trainwright.contract.sections.tokens import TokenData
from trainwright.data.dispatch import modality_of
from trainwright.data.images.prepare_images import read_images
from trainwright.data.images.resolve_source import holds_idx
from trainwright.data.modalities.modality import SplitSettings
from trainwright.data.quality.content.document_quality import document_faults
from trainwright.data.quality.content.image_quality import examine_images
from trainwright.data.quality.finding import Finding
from trainwright.data.quality.read_unchecked import examine_table
from trainwright.data.quality.run_checks import Effort, find_faults, find_image_faults
from trainwright.data.read_table import Raw
from trainwright.planner.init.first_contract import is_table, located
from trainwright.planner.init.guess_format import read_first
from trainwright.planner.init.guess_numbers import with_numbers
from trainwright.planner.init.propose_images import are_images, propose_images
from trainwright.planner.plan import plan
from trainwright.planner.read_device import read_device
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
    section, folder = document.contract.data, document.source.folder
    settings = partial(_split_settings, document)
    return modality_of(section.kind).check(section, folder, settings, effort, tell)


def _split_settings(document: Document, raw: Raw) -> SplitSettings[Any]:
    """How a training would split the data.

    Raises:
        Mistake: the contract does not fit the data.
    """
    decided = plan(document, raw.facts, read_device(False)).contract
    return SplitSettings(decided.data, decided_task(decided), decided.split_seed)
