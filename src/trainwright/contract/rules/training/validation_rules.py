"""Rules on when a run is validated and saved, and on what is measured then."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.contract.document import Contract
from trainwright.core.errors import Problem

_EVERY = tuple(f"training.validate_every_n_{unit}" for unit in ("epochs", "steps", "tokens"))


def check_validations(contract: Contract, written: frozenset[str]) -> Iterator[Problem]:
    """Validations are spaced in one unit."""
    training = contract.training
    is_on = {
        _EVERY[0]: True,
        _EVERY[1]: training.validate_every_n_steps != "off",
        _EVERY[2]: training.validate_every_n_tokens != "off",
    }
    given = [path for path in _EVERY if path in written and is_on[path]]
    if len(given) > 1:
        yield Problem(
            "the spacing of validations is given more than once",
            path=given[1],
            found=" and ".join(path.rpartition(".")[2] for path in given),
            expected="one of them",
            fix=f"keep one, for example {given[1].rpartition('.')[2]}",
        )


def check_token_spacing(contract: Contract, _written: frozenset[str]) -> Iterator[Problem]:
    """Tokens are those of a text."""
    training = contract.training
    spacings = {
        _EVERY[2]: (training.validate_every_n_tokens, "validate_every_n_steps"),
        "training.checkpointing.save_every_n_tokens": (
            training.checkpointing.save_every_n_tokens,
            "save_every_n_steps",
        ),
    }
    for path, (spacing, instead) in spacings.items():
        if spacing != "off" and not contract.data.has_tokens:
            yield Problem(
                "only a text has tokens",
                path=path,
                found=f"data of kind {contract.data.kind}",
                expected="data of kind tokens",
                fix=f"rename it to {instead}, which counts optimizer steps",
            )


def check_validated_slices(contract: Contract, _written: frozenset[str]) -> Iterator[Problem]:
    """There are slices to measure."""
    if contract.training.validation.slices and not contract.slices:
        yield Problem(
            "there are no slices to measure",
            path="training.validation.slices",
            found="true",
            expected="slices in the contract",
            fix="add for example slices: [{column: region}], or remove it",
        )


VALIDATION_RULES = (check_validations, check_token_spacing, check_validated_slices)
"""All of them, for the list of rules."""
