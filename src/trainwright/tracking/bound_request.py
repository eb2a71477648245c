"""Where a run's plan says that its contract stands, and with which overrides it is read: bound to
the run, so that an edited plan does not point the run at other data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from trainwright.core.files import Json
from trainwright.core.hashing import hash_value
from trainwright.tracking.identity import Identity, RunIdentity, identity_from_json

_KEY = "request"
_BOUND = ("overrides", "contract_path", "contract_folder")


def bind_request(request: Mapping[str, Json], identity: Identity) -> dict[str, Json]:
    """What a plan holds of the request: its words, and their digests."""
    if not isinstance(identity, RunIdentity):
        return dict(request)
    return {**request, _KEY: {key: _digest(request, key, identity) for key in _BOUND}}


def changed_request(plan: Json) -> Iterator[tuple[str, str]]:
    """Each part of the request in a plan that the run was not given, with what stands there; plans
    of earlier versions have nothing to compare."""
    identity = identity_from_json(plan.get("identity"))
    if not (isinstance(identity, RunIdentity) and identity.binds_request):
        return
    digests = plan.get(_KEY, {})
    for key in _BOUND:
        if digests.get(key) != _digest(plan, key, identity):
            yield key, _shown(plan.get(key, "absent"))


def _digest(values: Mapping[str, Json], key: str, identity: RunIdentity) -> str:
    return hash_value({"lineage": identity.lineage, key: values.get(key, "absent")})


def _shown(value: Json) -> str:
    return ", ".join(map(str, value)) or "none" if isinstance(value, list) else str(value)
