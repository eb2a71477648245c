"""Identity of a run, and the paths and overrides that its plan binds.

They are bound to the run so that an edited plan cannot point it at other data.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Self, final

from trainwright.core.files import Json, hash_value, read_json
from trainwright.tracking.run_folder import RunFolder

_KEY = "identity"
_REQUEST_KEY = "request"
_BOUND = ("overrides", "contract_path", "contract_folder")


@final
@dataclass(frozen=True, slots=True)
class RunIdentity:
    """Random id of a run, and the plan and data version that it was started with.

    `part` names the training of a fold or of another seed. The identity is unchanged when a run
    resumes with permitted changes to contract or data. `binds_request`: the plan contains digests
    of its contract's path and overrides, which earlier versions did not write.
    """

    run: str
    plan: str
    data: str
    part: str = ""
    binds_request: bool = True

    @classmethod
    def new(cls, plan: str, data: str) -> Self:
        """Identity of a new run: unique, even among runs of the same plan."""
        return cls(uuid.uuid4().hex, plan, data)

    @property
    def lineage(self) -> str:
        """Digest of the identity, stored in every checkpoint and bundle of the run."""
        return hash_value({**self.to_json(), "part": self.part})[:32]

    def of_part(self, part: str) -> Self:
        """Identity of a training inside the run."""
        return replace(self, part=part)

    def to_json(self) -> dict[str, Json]:
        """Its entry in `plan.json`."""
        bound = {"request": "bound"} if self.binds_request else {}
        return {"run": self.run, "plan": self.plan, "data": self.data, **bound}


@final
@dataclass(frozen=True, slots=True)
class NoIdentity:
    """Identity of a run whose plan an earlier version wrote: nothing is bound to it."""

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
    """Identity in a run's plan; for a training from a script, in a file of its own.

    Raises:
        OSError, ValueError: it cannot be read.
    """
    if not folder.plan.is_file():
        own = folder.identity.is_file()
        return identity_from_json(read_json(folder.identity)) if own else NoIdentity()
    return identity_from_json(read_json(folder.plan).get(_KEY))


def identity_from_json(value: Json) -> Identity:
    """Inverse of `to_json`."""
    if not value:
        return NoIdentity()
    bound = value.get("request") == "bound"
    run, plan, data = (str(value[key]) for key in ("run", "plan", "data"))
    return RunIdentity(run, plan, data, binds_request=bound)


def bind_request(request: Mapping[str, Json], identity: Identity) -> dict[str, Json]:
    """The request as stored in a plan: its words, and their digests."""
    if not isinstance(identity, RunIdentity):
        return dict(request)
    return {**request, _REQUEST_KEY: {key: _digest(request, key, identity) for key in _BOUND}}


def changed_request(plan: Json) -> Iterator[tuple[str, str]]:
    """Parts of a plan's request that differ from the original, with their current values; plans of
    earlier versions have nothing to compare."""
    identity = identity_from_json(plan.get("identity"))
    if not (isinstance(identity, RunIdentity) and identity.binds_request):
        return
    digests = plan.get(_REQUEST_KEY, {})
    for key in _BOUND:
        if digests.get(key) != _digest(plan, key, identity):
            yield key, _shown(plan.get(key, "absent"))


def _digest(values: Mapping[str, Json], key: str, identity: RunIdentity) -> str:
    return hash_value({"lineage": identity.lineage, key: values.get(key, "absent")})


def _shown(value: Json) -> str:
    return ", ".join(map(str, value)) or "none" if isinstance(value, list) else str(value)
