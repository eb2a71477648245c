"""What the run is made with: the source, the installation and the machine."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from importlib.metadata import Distribution, distributions
from pathlib import Path

from trainwright.core.files import Json

_GIT_SECONDS = 10.0


def describe_source(folder: Path) -> Json:
    """The git commit of the checkout around `folder`, and the hash of what was changed since.

    `{"commit", "dirty", "diff_sha256"}`, or `{"absent": reason}` outside a checkout. Untracked
    files count as dirty by their names.
    """
    git = shutil.which("git")
    if git is None:
        return {"absent": "git is not installed"}
    try:
        commit = _git(git, folder, ["rev-parse", "--verify", "HEAD"]).decode().strip()
        changes = _git(git, folder, ["status", "--porcelain", "-z"])
        difference = _git(git, folder, ["diff", "--no-ext-diff", "--no-textconv", "HEAD"])
    except (OSError, ValueError, subprocess.SubprocessError):
        return {"absent": "not a git checkout with a commit"}
    if not changes:
        return {"commit": commit, "dirty": False, "diff_sha256": ""}
    digest = hashlib.sha256(changes + b"\0" + difference).hexdigest()
    return {"commit": commit, "dirty": True, "diff_sha256": digest}


def describe_environment() -> Json:
    """The interpreter and every installed distribution as `name==version`, sorted."""
    return {
        "python": platform.python_version(),
        "implementation": sys.implementation.name,
        "platform": platform.platform(),
        "packages": list(list_packages()),
    }


@cache
def list_packages() -> tuple[str, ...]:
    """Every installed distribution as `name==version`, sorted; read once in a process."""
    named = (_name_and_version(distribution) for distribution in distributions())
    return tuple(sorted({f"{name.lower()}=={version}" for name, version in named if name}))


def _name_and_version(distribution: Distribution) -> tuple[str, str]:
    """From the head of the metadata: reading whole descriptions of hundreds of packages takes a
    third of a second, which the first step would wait for."""
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
    """CPU model, the cores this process may use, memory, and the GPUs as handed in."""
    return {
        "cpu": _field_of("/proc/cpuinfo", "model name") or platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        "gpus": list(gpus),
    }


def _git(git: str, folder: Path, arguments: Sequence[str]) -> bytes:
    # fsmonitor is a command of the checkout's choosing; it is not run.
    command = [git, "-c", "core.fsmonitor=false", "-C", str(folder), *arguments]
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
    return subprocess.run(  # noqa: S603  a fixed program with fixed arguments
        command,
        check=True,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=_GIT_SECONDS,
        env=environment,
    ).stdout


def _field_of(path: str, name: str) -> str:
    try:
        lines = Path(path).read_text(errors="replace").splitlines()
    except OSError:
        return ""
    values = (line.partition(":")[2].strip() for line in lines if line.startswith(name))
    return next(values, "")
