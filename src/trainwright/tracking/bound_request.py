"""Contract path and overrides in a run's plan, bound to the run, so that an edited plan cannot
point the run at other data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from trainwright.core.files import Json
from trainwright.core.hashing import hash_value
from trainwright.tracking.identity import Identity, RunIdentity, identity_from_json

_KEY = "request"
_BOUND = ("overrides", "contract_path", "contract_folder")


def bind_request(request: Mapping[str, Json], identity: Identity) -> dict[str, Json]:
    """The request as stored in a plan: its words, and their digests."""
    if not isinstance(identity, RunIdentity):
        return dict(request)
    return {**request, _KEY: {key: _digest(request, key, identity) for key in _BOUND}}


def changed_request(plan: Json) -> Iterator[tuple[str, str]]:
    """Parts of a plan's request that differ from the original, with their current values; plans of
    earlier versions have nothing to compare."""
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
