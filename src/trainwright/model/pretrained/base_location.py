"""Where the base of an adapter lies on this machine."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from trainwright.contract.sections.model.gpt import Gpt
from trainwright.contract.sections.model.pretrained import Base, Pretrained
from trainwright.core.errors import Mistake, Problem
from trainwright.model.pretrained.hub_files import BaseFolder, find_base

_VARIABLE: Final = "TRAINWRIGHT_BASE"


def locate_base(section: Pretrained | Gpt, base: Base, recorded: str) -> Base:
    """The base with the folder of its files: that of TRAINWRIGHT_BASE, the `recorded` one, or what
    `architecture` names from here.

    Raises:
        Mistake: there is none, or it holds other weights.
    """
    named = os.environ.get(_VARIABLE, "")
    expected = f"the files of {section.architecture} with weights of SHA-256 {base.weights}"
    fix = (
        f"set {_VARIABLE} to their folder, or merge the adapter where they are: "
        "trainwright weights merge RUN"
    )
    places = [Path(named)] if named else [Path(recorded or section.architecture)]
    if not named and not places[0].is_dir():
        try:
            places = [find_base(section, Path()).path]
        except Mistake:
            places = [Path(recorded or section.architecture)]
    if not (place := places[0]).is_dir():
        problem = "the base of this adapter is not on this machine"
        raise Mistake(Problem(problem, found=str(place), expected=expected, fix=fix))
    if (found := BaseFolder(place).weights_hash()) != base.weights:
        problem = "the adapter belongs to another base"
        raise Mistake(Problem(problem, found=f"{place}: {found}", expected=expected, fix=fix))
    return base.model_copy(update={"folder": str(place)})
