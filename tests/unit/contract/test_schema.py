from __future__ import annotations

import json
import subprocess
import sys

from trainwright.contract.document import Contract
from trainwright.contract.reading.schema import contract_schema, field_texts, schema_text
from trainwright.contract.sections.metric import METRICS
from trainwright.contract.sections.section import Section


def test_it_is_json_schema_with_a_title() -> None:
    schema = json.loads(schema_text())
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["title"] == "Trainwright contract"
    assert schema["required"] == ["data", "model"]
    assert schema["additionalProperties"] is False


def test_every_key_and_every_section_is_described() -> None:
    schema = contract_schema()
    for name, section in {"": schema, **schema["$defs"]}.items():
        assert section["description"], name
        for key, described in section["properties"].items():
            assert described["description"], f"{name}.{key}"
            assert "\n" not in described["description"]


class Parent(Section):
    """Two fields."""

    first: int = 1
    """The first
    of two."""

    second: int = 2
    """The second."""

    third: int = 3
    "of another value"


class Child(Parent):
    """One that says it anew, one that says nothing."""

    first: int = 3
    """Another first."""

    second: int = 4


def test_the_text_under_a_field_is_its_description() -> None:
    parent = {"first": "The first\nof two.", "second": "The second.", "third": "of another value"}
    assert field_texts(Parent) == parent
    assert field_texts(Child) == {"first": "Another first.", "third": "of another value"}


def test_metrics_are_offered() -> None:
    sections = contract_schema()["$defs"]
    assert sections["Metric"]["properties"]["name"]["enum"] == ["auto", *METRICS]
    assert "val_loss" in sections["EarlyStopping"]["properties"]["metric"]["enum"]
    assert "val_f1" in sections["EarlyStopping"]["properties"]["metric"]["enum"]


def test_every_reference_leads_somewhere() -> None:
    text = schema_text()
    sections = contract_schema()["$defs"]
    references = {part.split('"')[0] for part in text.split('"$ref": "#/$defs/')[1:]}
    assert references == set(sections)


def test_every_section_is_documented_in_its_contract_order() -> None:
    assert list(contract_schema()["properties"]) == list(Contract.model_fields)


def test_the_text_is_the_same_in_another_process() -> None:
    program = (
        "from trainwright.contract.reading.schema import schema_text; print(schema_text(), end='')"
    )
    other = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert other.stdout == schema_text()
