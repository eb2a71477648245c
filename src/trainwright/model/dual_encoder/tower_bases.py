"""Bases of the encoders of a model, each asked of its own family."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from trainwright.contract.sections.model.pretrained import Pretrained
from trainwright.core.files import Json
from trainwright.model.pretrained.pretrained_family import PretrainedFamily

if TYPE_CHECKING:
    from torch import nn

OF_BASES: Final = PretrainedFamily()


def names_in_bases(bases: Mapping[str, Pretrained], network: nn.Module) -> frozenset[str]:
    """Parameters that the files of the bases hold, of each base that has an adapter."""
    return frozenset(
        f"{side}.{name}"
        for side, tower in bases.items()
        for name in OF_BASES.base_names(tower, network.get_submodule(side))
    )


def locate_bases(
    bases: Mapping[str, Pretrained], recorded: Mapping[str, str]
) -> dict[str, Pretrained]:
    """The bases that have an adapter, each with the folder of its files.

    Raises:
        Mistake: one is not on this machine, or is another one.
    """
    return {
        side: OF_BASES.with_base(tower, {"": recorded.get(side, "")})
        for side, tower in bases.items()
        if tower.has_adapter
    }


def usual_rate(bases: Mapping[str, Pretrained]) -> Mapping[str, tuple[Json, str]]:
    """The learning rate beside bases, of which an adapter takes a higher one."""
    started = [base for base in bases.values() if base.weights == "pretrained"]
    if not started:
        return {}
    if all(base.has_adapter for base in started):
        return {"learning_rate": (5e-4, "the usual rate of an adapter")}
    return {"learning_rate": (1e-4, "the usual rate beside a base")}
