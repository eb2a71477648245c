"""Spot interruption notices from the metadata services of clouds.

They are served on a link-local address, so no proxy is used, only Google's host name is resolved,
and two seconds without a response count as none. The addresses of AWS and GCP can be set by the
variables that their own libraries read.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from typing import NamedTuple, final
from urllib.parse import urlsplit

_LINK_LOCAL = "http://169.254.169.254"
_SECONDS = 2.0
_MOST_BYTES = 1024 * 1024
_OK, _UNAUTHORIZED, _NOT_FOUND = 200, 401, 404


class _Answer(NamedTuple):
    status: int
    text: str
    headers: Mapping[str, str]


def ec2_address() -> str:
    """Address of the instance metadata service; `AWS_EC2_METADATA_SERVICE_ENDPOINT` takes
    precedence."""
    return os.environ.get("AWS_EC2_METADATA_SERVICE_ENDPOINT", "") or _LINK_LOCAL


def google_address() -> str:
    """Address of the metadata server; `GCE_METADATA_HOST` takes precedence."""
    host = os.environ.get("GCE_METADATA_HOST", "") or "metadata.google.internal"
    return f"http://{host}"


@final
@dataclass(slots=True)
class Ec2:
    """Interruption notice of an EC2 spot instance, by version 2 of the metadata service: a token,
    then `spot/instance-action`, which is absent until two minutes before the end (EC2 user guide,
    "Spot Instance interruption notices")."""

    address: str = field(default_factory=ec2_address)
    _token: str = ""

    def look(self) -> str:
        """Announced action and its time."""
        answer = self._ask()
        if answer.status == _UNAUTHORIZED:
            self._token = ""
            answer = self._ask()
        if answer.status == _NOT_FOUND:
            return ""
        with _understood("AWS"):
            action = json.loads(_checked("AWS", answer))
            return f"AWS will {_word(action['action'])} this machine at {_word(action['time'])}"

    def _ask(self) -> _Answer:
        if not self._token:
            lasts = {"X-aws-ec2-metadata-token-ttl-seconds": "21600"}
            self._token = _checked("AWS", _call(self.address, "PUT", "/latest/api/token", lasts))
        headers = {"X-aws-ec2-metadata-token": self._token}
        return _call(self.address, "GET", "/latest/meta-data/spot/instance-action", headers)


@final
@dataclass(frozen=True, slots=True)
class GoogleCloud:
    """Preemption of a Compute Engine spot VM, 30 seconds ahead (Compute Engine documentation,
    "Preemptible VM instances")."""

    address: str = field(default_factory=google_address)

    def look(self) -> str:
        """Whether it is being preempted."""
        path, flavor = "/computeMetadata/v1/instance/preempted", {"Metadata-Flavor": "Google"}
        answer = _call(self.address, "GET", path, flavor)
        said = _checked("GCP", answer).strip()
        if answer.headers.get("metadata-flavor") != "Google" or said not in ("TRUE", "FALSE"):
            raise ValueError(f"what answers at {self.address} is not the metadata server of GCP")
        return "GCP preempts this machine" if said == "TRUE" else ""


@final
@dataclass(slots=True)
class Azure:
    """Scheduled events of an Azure VM that end it, 30 seconds or more ahead (Azure documentation,
    "Scheduled Events for Linux VMs"). The events of a scale set list all of its machines, so this
    machine's name is queried first. A `Freeze` only pauses the machine."""

    address: str = _LINK_LOCAL
    _name: str = ""

    def look(self) -> str:
        """First event that ends this machine."""
        if not self._name:
            name = "/metadata/instance/compute/name?api-version=2021-02-01&format=text"
            self._name = self._ask(name).strip()
        with _understood("Azure"):
            answer = json.loads(self._ask("/metadata/scheduledevents?api-version=2020-07-01"))
            for event in answer["Events"]:
                ends = event["EventType"] in ("Preempt", "Terminate", "Redeploy", "Reboot")
                if ends and self._name in event["Resources"]:
                    kind, when = _word(event["EventType"]), _word(event.get("NotBefore", ""))
                    return f"Azure has scheduled {kind} for this machine{when and f', {when}'}"
        return ""

    def _ask(self, path: str) -> str:
        return _checked("Azure", _call(self.address, "GET", path, {"Metadata": "true"}))


def _call(address: str, method: str, path: str, headers: Mapping[str, str]) -> _Answer:
    """One request, without a proxy or redirects.

    Raises:
        OSError: no response.
    """
    place = urlsplit(address)
    connection = HTTPConnection(place.hostname or "", place.port or 80, timeout=_SECONDS)
    try:
        connection.request(method, path, headers=dict(headers))
        answer = connection.getresponse()
        data = answer.read(_MOST_BYTES)
    except (OSError, HTTPException) as error:
        raise OSError(f"{address} does not answer: {error!r}") from None
    finally:
        connection.close()
    return _Answer(
        answer.status,
        data.decode("utf-8", "replace"),
        {k.lower(): v for k, v in answer.headers.items()},
    )


def _checked(cloud: str, answer: _Answer) -> str:
    if answer.status != _OK:
        raise OSError(f"the metadata service of {cloud} answers with status {answer.status}")
    return answer.text


@contextmanager
def _understood(cloud: str) -> Iterator[None]:
    """Convert parse errors inside the block: the response has an unexpected format."""
    try:
        yield
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
        raise ValueError(
            f"the metadata service of {cloud} sent an invalid response: {error!r}"
        ) from None


def _word(value: object) -> str:
    """Sanitised part of a response for display: letters, digits and date characters."""
    return "".join(c for c in str(value)[:60] if c.isalnum() or c in " :,.+-")
