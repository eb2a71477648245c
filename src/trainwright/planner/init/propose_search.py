"""The section `tune` of a first contract."""

from __future__ import annotations

from pathlib import Path

from trainwright.contract.reading.read_contract import ContractText, read_contract
from trainwright.contract.sections.model.search_spaces import propose_space
from trainwright.core.errors import ContractMistake, Problem


def add_search(text: str, folder: Path) -> str:
    """A contract with a search over the values of its model that matter.

    Raises:
        ContractMistake: its model selects among families itself.
    """
    document = read_contract(ContractText(text, folder))
    space = propose_space(document.contract.model)
    if not space:
        raise ContractMistake(
            [
                Problem(
                    "a model that is selected among families has no values to search",
                    path="model.kind",
                    found="auto",
                    fix="leave out --tune, or name a family: --set model.kind=boosting",
                )
            ]
        )
    lines = [
        "tune:  # trainwright tune CONTRACT: trainings with other values; the winner is judged once",
        "  over:  # a list of values, or an interval; log: each factor is as likely as another",
        *(f"    {axis.path}: {axis.values}  # {axis.reason}" for axis in space),
        "  trials: 20  # the first is the contract as it is written, which the others must beat",
        "",
    ]
    searched = text + "\n".join(lines)
    read_contract(ContractText(searched, folder))
    return searched
