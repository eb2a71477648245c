"""The contract's keys are a promise: each change of one is made on purpose, here too."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from trainwright.contract.reading.schema import contract_schema, schema_text

FROZEN = Path(__file__).with_name("contract_keys.txt")


def keys() -> list[str]:
    """`Section.key = default`, a line for each key of each section."""
    schema = contract_schema()
    sections = {"Contract": schema, **schema["$defs"]}
    return sorted(
        f"{name}.{key} = {default(value, key in section.get('required', ()))}"
        for name, section in sections.items()
        for key, value in section["properties"].items()
    )


def default(value: Mapping[str, object], required: bool) -> str:
    if required:
        return "required"
    written = value.get("default", {})
    return "its own defaults" if isinstance(written, dict) else json.dumps(written)


def test_the_keys_and_their_defaults_are_those_written_down() -> None:
    assert keys() == FROZEN.read_text(encoding="utf-8").splitlines(), (
        f"if this change is meant, write it into {FROZEN.name} and the changelog"
    )


def test_the_schema_that_editors_read_is_the_one_printed() -> None:
    beside_examples = Path(__file__).resolve().parents[2] / "examples" / "contract.schema.json"
    assert beside_examples.read_text(encoding="utf-8") == schema_text(), (
        "write it anew: trainwright schema > examples/contract.schema.json"
    )
