"""Every key of the contract with every wrong type: a mistake, and never another error.

The keys come from the schema itself, so that one which is added later is tried too.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

import pytest

from faults.tiers import times
from trainwright.contract.document import Contract
from trainwright.contract.reading.read_contract import read_contract
from trainwright.contract.reading.schema import known_paths
from trainwright.core.errors import ContractMistake

pytestmark = pytest.mark.row("F-64")
_VALUES = (
    *("{}", "[]", "[1]", "[{}]", "[[[]]]", "{a: 1}", "{kind: x}", "{kind: {}}", "{name: []}"),
    *("5", "-1", "0", "1.5", "1e308", "9" * 39, "true", "null", "off", "auto", "abc", "''"),
    *('"\\0"', '"\\ud800"'),
)
_CASES = [(path, value) for path in known_paths(Contract) for value in _VALUES]


@pytest.mark.parametrize("model", ["boosting", "mlp", "resnet", "gpt"])
def test_a_wrong_type_is_a_mistake(model: str, tmp_path: Path, figure: Callable[..., None]) -> None:
    contract = tmp_path / "c.yaml"
    contract.write_text(f"data: {{path: rows.csv, target: y}}\nmodel: {{kind: {model}}}\n")
    every = times(43, 1)
    for path, value in _CASES[len(model) :: every]:
        # Some values are good; any error but this one fails the test.
        with contextlib.suppress(ContractMistake):
            read_contract(contract, [f"{path}={value}"])
    figure(wrong_values=len(_CASES[len(model) :: every]))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("task", "{}"),
        ("training.freeze", "5"),
        ("training.freeze", "[]"),
        ("training.optimizer.learning_rate_factors", "[]"),
        ("seed", "{}"),
    ],
)
def test_a_mapping_where_a_value_belongs_is_named(path: str, value: str, tmp_path: Path) -> None:
    contract = tmp_path / "c.yaml"
    contract.write_text("data: {path: rows.csv, target: y}\nmodel: {kind: mlp}\n")
    with pytest.raises(ContractMistake) as caught:
        read_contract(contract, [f"{path}={value}"])
    (problem,) = caught.value.problems
    assert (problem.path, str(problem.place)) == (path, f"--set {path}={value}")
