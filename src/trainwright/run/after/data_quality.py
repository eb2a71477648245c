"""Data quality checks of a file or a contract."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from trainwright.contract.reading.overrides import read_settings
from trainwright.contract.reading.read_contract import ContractText, Document, read_contract
from trainwright.contract.sections.data.data import Data
from trainwright.contract.sections.data.images import ImageData
from trainwright.contract.sections.data.table_data import TableData
from trainwright.contract.sections.data.tokens import TokenData
from trainwright.core.errors import ContractMistake, Problem
from trainwright.data.dispatch import modality_of
from trainwright.data.images.prepare_images import read_images
from trainwright.data.images.resolve_source import holds_idx
from trainwright.data.modalities.modality import SplitSettings
from trainwright.data.quality.content.document_quality import document_faults
from trainwright.data.quality.content.image_quality import examine_images
from trainwright.data.quality.finding import Finding
from trainwright.data.quality.run_checks import (
    Effort,
    examine_table,
    find_faults,
    find_image_faults,
)
from trainwright.data.read_table import Raw
from trainwright.planner.init.first_contract import is_table, located
from trainwright.planner.init.guess_format import read_first, with_numbers
from trainwright.planner.init.propose_images import are_images, propose_images
from trainwright.planner.init.yaml_lines import with_settings
from trainwright.planner.plan import plan
from trainwright.planner.plan_facts import read_device
from trainwright.run.prepare.prepare_run import decided_task

Tell = Callable[[str], None]


def file_findings(
    source: str, target: str, effort: Effort, tell: Tell, overrides: Sequence[str] = ()
) -> tuple[Finding, ...]:
    """Findings of a file, a folder, a pattern or a URL, read with the contract that `init` would
    propose with these `overrides` of `data`. Without a target, classes, labels and leaks of a table
    are not checked.

    Raises:
        DataMistake: the data is missing, damaged or not of the format its name says, or lacks the
            column. ContractMistake: an invalid override, or one outside `data`.
    """
    _check_overrides(overrides)
    folder, found, _ = located(source, Path())
    # A table that names images is checked as a table; a contract for images checks the images.
    tabular = is_table(source, folder / found)
    if not tabular and are_images(folder / found):
        return _image_faults(_proposed_images(folder / found, target, overrides), folder, effort)
    if not tabular and not target:
        texts = TokenData.of(_section({"kind": "tokens", "path": found}, "gpt", folder, overrides))
        return document_faults(texts, folder, quick=effort == "quick", tell=tell)
    named = {"target": target} if target else {}
    asked = TableData.of(_section({"path": found, **named}, "boosting", folder, overrides))
    targeted = "target" in asked.model_fields_set
    first = read_first(folder, found, asked.reading, asked.target_columns[0] if targeted else "")
    reading, _ = with_numbers(folder, found, first.reading, ())
    table = asked.model_copy(update={"reading": reading})
    data = examine_table(table, folder, targeted=targeted)
    return find_faults(data, table.columns, effort, tell)


def _check_overrides(overrides: Sequence[str]) -> None:
    others = [one for one in read_settings(overrides) if one.parts[0] != "data"]
    if others:
        raise ContractMistake(
            Problem(
                "only settings of the data change how a file is checked",
                path=one.path,
                expected="a path below data",
                fix="write for example --set data.reading.encoding=cp1252, or check a contract",
                place=one.place,
            )
            for one in others
        )


def _section(data: Mapping[str, str], model: str, folder: Path, overrides: Sequence[str]) -> Data:
    """The section of a contract with the overrides."""
    text = ContractText.of({"data": dict(data), "model": {"kind": model}}, folder)
    return read_contract(text, overrides).contract.data


def _proposed_images(place: Path, target: str, overrides: Sequence[str]) -> ImageData:
    """How `init` would read images; unreadable ones are counted."""
    text = with_settings(propose_images(place, target, place.parent), overrides)
    section = ImageData.of(read_contract(ContractText(text, place.parent)).contract.data)
    if holds_idx(place):
        # Images of these formats have a fixed size in bytes, and can always be read.
        return section
    drop = section.decoding.model_copy(update={"corrupt": "drop"})
    return section.model_copy(update={"decoding": drop})


def _image_faults(section: ImageData, folder: Path, effort: Effort) -> tuple[Finding, ...]:
    raw = read_images(section, folder)
    return find_image_faults(raw, examine_images(raw), effort)


def check_contract_data(
    path: Path, target: str, effort: Effort, tell: Tell, overrides: Sequence[str] = ()
) -> tuple[Finding, ...]:
    """Findings of all files of a contract with these `overrides`, split as it says if possible.

    Raises:
        Mistake: in the contract, or in a file as a whole; problems of single columns are findings.
    """
    named = [f"data.target={target}"] if target else []
    document = read_contract(path, [*named, *overrides])
    section, folder = document.contract.data, document.source.folder
    modality, settings = modality_of(section.kind), partial(_split_settings, document)
    return modality.check(section, folder, settings, document.contract.split_seed, effort, tell)


def _split_settings(document: Document, raw: Raw) -> SplitSettings[Any]:
    """How a training would split the data.

    Raises:
        Mistake: the contract does not fit the data.
    """
    decided = plan(document, raw.facts, read_device(False)).contract
    return SplitSettings(decided.data, decided_task(decided), decided.split_seed)
