"""Software and hardware environment of a run."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Sequence
from functools import cache
from importlib.metadata import Distribution, distributions
from pathlib import Path

from trainwright.core.files import Json


def describe_environment() -> Json:
    """The interpreter and every installed distribution as `name==version`, sorted."""
    return {
        "python": platform.python_version(),
        "implementation": sys.implementation.name,
        "platform": _describe_platform(),
        "packages": list(list_packages()),
    }


def _describe_platform() -> str:
    """As `platform.platform`, which starts a program for the name of the processor."""
    system = os.uname()
    libc = "".join(platform.libc_ver())
    parts = [system.sysname, system.release, system.machine]
    return "-".join(parts + ["with", libc] * bool(libc))


@cache
def list_packages() -> tuple[str, ...]:
    """Every installed distribution as `name==version`, sorted; cached."""
    named = (_name_and_version(distribution) for distribution in distributions())
    return tuple(sorted({f"{name.lower()}=={version}" for name, version in named if name}))


def _name_and_version(distribution: Distribution) -> tuple[str, str]:
    """Read only the head of the metadata: whole descriptions of hundreds of packages take a third
    of a second before the first step."""
    text = distribution.read_text("METADATA") or distribution.read_text("PKG-INFO") or ""
    found = {"Name": "", "Version": ""}
    for line in text.splitlines():
        key, _, value = line.partition(":")
        if not line:
            break
        if key in found:
            found[key] = value.strip()
    return found["Name"], found["Version"]


def describe_hardware(gpus: Sequence[str]) -> Json:
    """CPU model, available cores, memory, and the given GPUs."""
    return {
        "cpu": _field_of("/proc/cpuinfo", "model name") or platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        "gpus": list(gpus),
    }


def _field_of(path: str, name: str) -> str:
    try:
        lines = Path(path).read_text(errors="replace").splitlines()
    except OSError:
        return ""
    values = (line.partition(":")[2].strip() for line in lines if line.startswith(name))
    return next(values, "")
