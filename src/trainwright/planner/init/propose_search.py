"""The section `tune` of a first contract."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from trainwright.contract.reading.read_contract import ContractText, read_contract
from trainwright.contract.sections.model.search_spaces import propose_space
from trainwright.core.errors import ContractMistake, Problem
from trainwright.planner.init.yaml_lines import with_settings

_ONE_FAMILY = "model.kind=boosting"
_WHY = "a search is over the values of one family; `auto` would choose among several"


def add_search(text: str, folder: Path, overrides: Sequence[str]) -> str:
    """A proposed contract with a search over the values of its model that matter. Where the
    proposal selects among families, boosting takes its place: a search is over one.

    Raises:
        ContractMistake: the overrides ask for a selection.
    """
    space = propose_space(read_contract(ContractText(text, folder)).contract.model)
    if not space and any(override.startswith("model") for override in overrides):
        problem = Problem(
            "a selection among families chooses by itself, and has no values to search",
            path="model.kind",
            fix=f"leave out --tune, or name a family: --set {_ONE_FAMILY}",
        )
        raise ContractMistake([problem])
    if not space:
        text = with_settings(text, [_ONE_FAMILY])
        text = text.replace("{kind: boosting}  # set with --set", f"{{kind: boosting}}  # {_WHY}")
        space = propose_space(read_contract(ContractText(text, folder)).contract.model)
    lines = [
        "tune:  # trainwright tune CONTRACT: trains with other values, judges the winner",
        "  over:  # a list of values, or an interval; log: each factor is as likely as another",
        *(f"    {axis.path}: {axis.values}  # {axis.reason}" for axis in space),
        "  trials: 20  # the first is the contract as written, which the others must beat",
        "",
    ]
    searched = text + "\n".join(lines)
    read_contract(ContractText(searched, folder))
    return searched
