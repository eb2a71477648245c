"""What the time leaves of a candidate: fewer epochs, or fewer trees of a forest. Decided once: a
resumed training, and a second one, keep it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self, final

from trainwright.core.files import Json, damage_in, read_json, write_json
from trainwright.planner.plan import Plan

_FILE = "cut.json"


@final
@dataclass(frozen=True, slots=True)
class Cut:
    """Settings of `model` or `training` by their path, and in words what they leave; nothing if all
    fits. `share` is what they leave of a library's training, if more of it is the same model with
    less noise; 0 if not."""

    settings: Mapping[str, Json] = field(default_factory=dict)
    said: str = ""
    share: float = 0.0

    def of_plan(self, plan: Plan) -> Plan:
        """A plan with these settings."""
        for path, value in self.settings.items():
            section, key = path.split(".")
            part = getattr(plan.contract, section).model_copy(update={key: value})
            contract = plan.contract.model_copy(update={section: part})
            plan = replace(plan, contract=contract)
        return plan

    def write(self, folder: Path) -> None:
        """Write `cut.json` of a training's folder.

        Raises:
            StorageFailed: the disk.
        """
        content = {"settings": dict(self.settings), "said": self.said, "share": self.share}
        write_json(folder / _FILE, content)

    @classmethod
    def from_json(cls, json: Json) -> Self:
        """What `write` wrote."""
        return cls(dict(json["settings"]), str(json["said"]), float(json.get("share", 0.0)))


UNCUT = Cut()


def is_decided(folder: Path) -> bool:
    """Is it known what the time leaves of this training?"""
    return (folder / _FILE).is_file()


def read_cut(folder: Path) -> Cut:
    """What was decided for the training of a folder; nothing is cut if it says nothing."""
    path = folder / _FILE
    if not path.is_file():
        return UNCUT
    with damage_in(path):
        return Cut.from_json(read_json(path))
