"""Decided contracts of earlier versions, which lack keys of this one."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from command import CONTRACT, with_layers, write_rows
from trainwright.contract.document import Contract
from trainwright.contract.reading.read_contract import Document, read_contract
from trainwright.contract.reading.stored_contracts import with_defaults
from trainwright.contract.resumable_fields import differences
from trainwright.core.files import Json
from trainwright.data.read_table import read_table
from trainwright.planner.plan import plan
from trainwright.planner.plan_facts import DeviceFacts

CONTRACTS = {
    "boosting": CONTRACT,
    "network": with_layers("[8]") + "training: {num_epochs: 3, guard: {spike: ignore}}\n",
    "plain": "data: {path: rows.csv, target: bought}\nmodel: {kind: mlp}\n",
    "columns": "data:\n  path: rows.csv\n  target: bought\n  columns: {city: {kind: categorical}}\n"
    "  sampling: {kind: weighted, column: age}\nmodel: {kind: mlp}\n"
    "slices: [{column: city}, {where: age > 60, floor: 0.3}]\n"
    "training: {average: {kind: swa, every_n_steps: 5}, ramps: {batch: {start: 8}}}\n",
}


def decided_of(folder: Path, text: str) -> tuple[Document, Contract]:
    write_rows(folder / "rows.csv")
    (folder / "c.yaml").write_text(text)
    document = read_contract(folder / "c.yaml")
    raw = read_table(document.contract.data, folder)
    return document, plan(document, raw.facts, DeviceFacts()).contract


def keys(value: Json, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    for key, one in inner:
        yield (*path, key)
        if isinstance(one, dict | list):
            yield from keys(one, (*path, key))


def is_required(decided: object, path: tuple[str | int, ...]) -> bool:
    around: Any = decided
    for key in path[:-1]:
        around = getattr(around, str(key)) if isinstance(around, BaseModel) else around[key]
    return (
        not isinstance(around, BaseModel) or type(around).model_fields[str(path[-1])].is_required()
    )


def without(content: Json, path: tuple[str | int, ...]) -> Json:
    content = copy.deepcopy(content)
    around = content
    for key in path[:-1]:
        around = around[key]
    del around[path[-1]]
    return content


@pytest.mark.parametrize("text", CONTRACTS.values(), ids=CONTRACTS)
def test_each_key_that_is_left_at_its_default_may_be_absent(tmp_path: Path, text: str) -> None:
    document, decided = decided_of(tmp_path, text)
    written, content = document.contract, decided.model_dump(mode="json")
    named = {one.removeprefix("c.") for one in document.written}
    tried = 0
    for path in keys(content):
        if isinstance(path[-1], int):
            continue
        dotted = ".".join(map(str, path))
        if any(one == dotted or one.startswith(f"{dotted}.") for one in named):
            continue  # the contract says it
        if is_required(decided, path):
            continue  # every version wrote it
        stored = without(content, path)
        filled = with_defaults(stored, decided, written)
        left = [one for one, *_ in differences(filled, content)]
        assert not left or left == ["name"], f"{dotted}: {left}"
        tried += 1
    assert tried > 50


def test_all_of_them_at_once(tmp_path: Path) -> None:
    document, decided = decided_of(tmp_path, CONTRACTS["columns"])
    content = decided.model_dump(mode="json")
    filled = with_defaults(
        document.contract.model_dump(mode="json", exclude_unset=True), decided, document.contract
    )
    assert not [one for one, *_ in differences(filled, content) if one != "name"]


def test_a_key_that_the_contract_sets_now_is_a_change(tmp_path: Path) -> None:
    text = CONTRACTS["network"].replace("num_epochs: 3", "num_epochs: 3, gradient_clipping: 0.5")
    document, decided = decided_of(tmp_path, text)
    stored = without(decided.model_dump(mode="json"), ("training", "gradient_clipping"))
    filled = with_defaults(stored, decided, document.contract)
    changes = list(differences(filled, decided.model_dump(mode="json")))
    assert changes == [("training.gradient_clipping", 1.0, 0.5)]


def test_a_value_that_is_stored_stays(tmp_path: Path) -> None:
    document, decided = decided_of(tmp_path, CONTRACTS["plain"])
    stored = decided.model_dump(mode="json")
    stored["training"]["gradient_clipping"] = 9.0
    stored["training"]["old_key"] = 1
    filled = with_defaults(stored, decided, document.contract)
    assert filled == stored
