"""The contract as a JSON schema: completion and documentation in editors."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from trainwright.contract.document import Contract
from trainwright.contract.reading.field_docs import field_texts
from trainwright.contract.sections.metric import METRICS
from trainwright.contract.sections.section import Section
from trainwright.core.files import Json

_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def contract_schema() -> Json:
    """The JSON schema of a contract, as JSON values. The same for the same version."""
    schema: Json = {
        "$schema": _DIALECT,
        **Contract.model_json_schema(),
        "title": "Trainwright contract",
    }
    sections = schema["$defs"]
    classes = {section.__name__: section for section in _all_sections(Section)}
    for name, section in (("Contract", schema), *sections.items()):
        _document(section["properties"], field_texts(classes[name]))
    sections["Metric"]["properties"]["name"]["enum"] = ["auto", *METRICS]
    sections["Slice"]["properties"]["metric"]["enum"] = ["auto", *METRICS]
    sections["EarlyStopping"]["properties"]["metric"]["enum"] = [
        "auto",
        "val_loss",
        *(f"val_{name}" for name in METRICS),
    ]
    for section in (schema, *sections.values()):
        _describe(section)
    return schema


def schema_text() -> str:
    """The JSON schema as text, in the order of the contract's own documentation."""
    return json.dumps(contract_schema(), indent=2, ensure_ascii=False) + "\n"


def _all_sections(root: type[Section]) -> Iterator[type[Section]]:
    for section in root.__subclasses__():
        yield section
        yield from _all_sections(section)


def _document(properties: Json, texts: Mapping[str, str]) -> None:
    """Put the text of each field where pydantic would put it: keys are in order."""
    for name, text in texts.items():
        properties[name] = dict(sorted({**properties[name], "description": text}.items()))


def _describe(section: Json) -> None:
    """Give the key that chooses a member of a family the member's own description."""
    section["description"] = _one_line(section["description"])
    for described in section["properties"].values():
        described.setdefault("description", section["description"])
        described["description"] = _one_line(described["description"])


def _one_line(text: str) -> str:
    return " ".join(text.split())
