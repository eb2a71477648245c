"""Identity of a run: what its checkpoints and models are bound to."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace
from typing import Self, final

from trainwright.core.files import Json, read_json
from trainwright.core.hashing import hash_value
from trainwright.tracking.run_folder import RunFolder

_KEY = "identity"


@final
@dataclass(frozen=True, slots=True)
class RunIdentity:
    """One run: its own number, and the plan and data version that it was started with.

    `part` names the training of a fold or of another seed. The identity stays the same when a run
    goes on with a changed contract or changed data that it was allowed to record. `binds_request`:
    the plan has digests of where its contract stands and of the overrides; so it is since a version
    that wrote them.
    """

    run: str
    plan: str
    data: str
    part: str = ""
    binds_request: bool = True

    @classmethod
    def new(cls, plan: str, data: str) -> Self:
        """That of a run which begins: no other run has it, not even one of the same plan."""
        return cls(uuid.uuid4().hex, plan, data)

    @property
    def lineage(self) -> str:
        """A digest of all of it, which stands in every checkpoint and bundle of the run."""
        return hash_value({**self.to_json(), "part": self.part})[:32]

    def of_part(self, part: str) -> Self:
        """That of a training inside the run."""
        return replace(self, part=part)

    def to_json(self) -> dict[str, Json]:
        """What stands in `plan.json`."""
        bound = {"request": "bound"} if self.binds_request else {}
        return {"run": self.run, "plan": self.plan, "data": self.data, **bound}


@final
@dataclass(frozen=True, slots=True)
class NoIdentity:
    """That of a run whose plan an earlier version wrote: nothing of it is bound."""

    @property
    def lineage(self) -> str:
        """Empty."""
        return ""

    def of_part(self, part: str) -> Self:  # noqa: ARG002
        """The same."""
        return self

    def to_json(self) -> dict[str, Json]:
        """Nothing."""
        return {}


Identity = RunIdentity | NoIdentity


def read_identity(folder: RunFolder) -> Identity:
    """The identity in a run's plan, of a training from a script in a file of its own.

    Raises:
        OSError, ValueError: it cannot be read.
    """
    if not folder.plan.is_file():
        own = folder.identity.is_file()
        return identity_from_json(read_json(folder.identity)) if own else NoIdentity()
    return identity_from_json(read_json(folder.plan).get(_KEY))


def identity_from_json(value: Json) -> Identity:
    """Read `to_json`."""
    if not value:
        return NoIdentity()
    bound = value.get("request") == "bound"
    run, plan, data = (str(value[key]) for key in ("run", "plan", "data"))
    return RunIdentity(run, plan, data, binds_request=bound)
