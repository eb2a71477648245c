"""Where the base of an adapter lies on this machine."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from trainwright.contract.sections.model.pretrained import Base
from trainwright.core.errors import Mistake, Problem
from trainwright.model.pretrained.hub_files import BasedSection, BaseFolder, find_base

_VARIABLE: Final = "TRAINWRIGHT_BASE"


def locate_base(section: BasedSection, base: Base, recorded: str) -> Base:
    """The base with the folder of its files: one of those that TRAINWRIGHT_BASE names, the
    `recorded` one, or what `architecture` names from here.

    Raises:
        Mistake: there is none, or it holds other weights.
    """
    named = [Path(one) for one in os.environ.get(_VARIABLE, "").split(os.pathsep) if one]
    expected = f"the files of {section.architecture} with weights of SHA-256 {base.weights}"
    fix = (
        f"set {_VARIABLE} to their folder, or merge the adapter where they are: "
        "trainwright weights merge RUN"
    )
    places = named or [_recorded_place(section, recorded)]
    there = [one for one in places if one.is_dir()]
    if not there:
        problem = "the base of this adapter is not on this machine"
        looked = ", ".join(map(str, places))
        raise Mistake(Problem(problem, found=looked, expected=expected, fix=fix))
    found = {place: BaseFolder(place).weights_hash() for place in there}
    for place, weights in found.items():
        if weights == base.weights:
            return base.model_copy(update={"folder": str(place)})
    problem = "the adapter belongs to another base"
    others = "; ".join(f"{place}: {weights}" for place, weights in found.items())
    raise Mistake(Problem(problem, found=others, expected=expected, fix=fix))


def _recorded_place(section: BasedSection, recorded: str) -> Path:
    place = Path(recorded or section.architecture)
    if place.is_dir():
        return place
    try:
        return find_base(section, Path()).path
    except Mistake:
        return place
