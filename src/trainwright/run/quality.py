"""The data of a file or a contract, looked at for faults."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import assert_never

from trainwright.contract.data import TableData
from trainwright.contract.images import ImageData
from trainwright.contract.reading import Document, read_contract
from trainwright.contract.tokens import TokenData
from trainwright.core.errors import Mistake
from trainwright.data.audit.audited import Audited, findings_beside
from trainwright.data.images import prepare_images
from trainwright.data.kinds import prepare, read_data
from trainwright.data.prepared import Prepared
from trainwright.data.quality.collect import Effort, find_faults, find_image_faults
from trainwright.data.quality.examined import Examined
from trainwright.data.quality.finding import Finding, worst_first
from trainwright.data.quality.pictures import divided_images, examine_images
from trainwright.data.quality.reading import divided, examine_prepared, examine_table
from trainwright.data.raw_images import RawImages
from trainwright.data.reading import RawTable
from trainwright.planner.device import read_device
from trainwright.planner.first import how_to_read
from trainwright.planner.plan import plan
from trainwright.run.auditing import audit_prepared
from trainwright.run.ready import task_of

Tell = Callable[[str], None]


def check_file(path: Path, target: str, effort: Effort, tell: Tell) -> tuple[Finding, ...]:
    """Findings of one data file, read as a contract that is proposed for it would read it. Without
    a target, nothing is said of classes, labels and leaks.

    Raises:
        DataMistake: the file is missing, damaged or not what its name says, or has no such column.
    """
    absolute = path.absolute()
    reading, _ = how_to_read(absolute.parent, absolute.name, target)
    section = TableData(path=absolute.name, target=target or TableData().target, reading=reading)
    data = examine_table(section, absolute.parent, targeted=bool(target))
    return find_faults(data, section.columns, effort, tell)


def check_contract_data(path: Path, target: str, effort: Effort, tell: Tell) -> tuple[Finding, ...]:
    """Findings of all files of a contract, divided as it says where they can be.

    Raises:
        Mistake: of the contract, or of a file as a whole; what single columns hold is found.
    """
    document = read_contract(path, [f"data.target={target}"] if target else [])
    section = document.contract.data
    match section:
        case TableData():
            data = examine_table(section, document.source.folder)
            data, audited = _divided(document, section, data, tell)
            faults = find_faults(data, section.columns, effort, tell, audited=bool(audited))
            return worst_first((*faults, *findings_beside(audited, faults)))
        case ImageData():
            raw = read_data(section, document.source.folder)
            assert isinstance(raw, RawImages)
            return find_image_faults(raw, _divided_images(document, section, raw, tell), effort)
        case TokenData():
            return ()
        case _:
            assert_never(section)


def _divided_images(document: Document, section: ImageData, raw: RawImages, tell: Tell) -> Examined:
    """The images with their parts; as they are read where they cannot be divided yet."""
    data = examine_images(raw)
    try:
        return divided_images(data, raw, prepare_images(raw, section, document.contract.seed))
    except Mistake as mistake:
        tell(f"faults in undivided images, since they cannot be divided: {mistake.problems[0]}")
        return data


def _divided(
    document: Document, section: TableData, data: Examined, tell: Tell
) -> tuple[Examined, tuple[Audited, ...]]:
    """The rows with their parts, and the audit of these; as they are, and nothing, where the data
    cannot be prepared yet."""
    try:
        raw = read_data(section, document.source.folder)
        decided = plan(document, raw.facts, read_device(False)).contract
        prepared: Prepared = prepare(raw, decided.data, task_of(decided), decided.seed)
    except Mistake as mistake:
        tell(f"faults in undivided rows, since they cannot be divided: {mistake.problems[0]}")
        return data, ()
    assert isinstance(raw, RawTable)
    audited = audit_prepared(decided, raw, prepared)
    return divided(data, examine_prepared(raw, prepared, section)), audited
