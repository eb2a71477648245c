"""A table that is read, prepared and audited as a contract asks for."""

from __future__ import annotations

from pathlib import Path

from trainwright.contract.sections.data.table_data import Features, TableData, TextFeatures
from trainwright.core.files import Json
from trainwright.data.audit.audit_result import AuditResult
from trainwright.data.audit.run_audit import audit
from trainwright.data.prepare_table import prepare_table
from trainwright.data.read_table import RawTable, read_table
from trainwright.data.types import Prepared

RANDOM, STRATIFIED = {"kind": "random"}, {"kind": "stratified"}


def audited(at: Path, target: str, split: Json, **more: Json) -> tuple[AuditResult, ...]:
    _, prepared, section = to_audit(at, target, split, **more)
    return audit(prepared, section)


def to_audit(
    at: Path, target: str, split: Json, **more: Json
) -> tuple[RawTable, Prepared, TableData]:
    text = TextFeatures(terms=100, reduce="none")
    features = Features(numeric="none", impute="median", text=text)
    given = {"path": at.name, "target": target, "split": split, **more}
    section = TableData.model_validate({**given, "features": features})
    raw = read_table(section, at.parent)
    task = "classification" if raw.facts.target.kind == "classes" else "regression"
    return raw, prepare_table(raw, section, task, 0), section


def worst(found: tuple[AuditResult, ...]) -> dict[str, str]:
    order = ("clean", "suspicious", "leak")
    return {
        test: max((one.verdict for one in found if one.test == test), key=order.index)
        for test in dict.fromkeys(one.test for one in found)
    }
