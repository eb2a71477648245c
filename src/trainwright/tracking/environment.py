"""Software, hardware and git commit of a run.

The commit is read without running anything that the checkout configures. A checkout's
configuration can name programs: filters, hooks, fsmonitor, remote helpers, ssh, textconv,
credential helpers, submodules with a configuration of their own. So git never sees it: it runs in
a git folder of ours, with an empty configuration, that only links to the objects, references and
index of the checkout. Changed files are hashed here, not by `git diff`.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import stat
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import final

from trainwright.core.files import Json, opened_regular, read_regular
from trainwright.core.redaction import redact

_GIT_SECONDS = 10.0
_MOST_HASHED_BYTES = 2**30
_MOST_CONFIG_BYTES = 2**20
_BLOCK = 2**20
_POINTER = re.compile(r"gitdir: (.+)")

# What git must know to compare files with its index; none of these settings names a program.
_COMPARING = frozenset(
    f"core.{name}"
    for name in (
        "autocrlf",
        "checkstat",
        "eol",
        "filemode",
        "ignorecase",
        "precomposeunicode",
        "symlinks",
        "trustctime",
    )
)

_FORMAT = "extensions.objectformat"
_WORD = re.compile(r"[A-Za-z0-9]{0,16}")
_STATUS = (
    "status",
    "--porcelain",
    "-z",
    "--no-renames",
    "--untracked-files=normal",
    # Checking a submodule for changes would run git under the submodule's configuration.
    "--ignore-submodules=dirty",
)


def describe_environment() -> Json:
    """The interpreter and every installed distribution as `name==version`, sorted."""
    return {
        "python": platform.python_version(),
        "implementation": sys.implementation.name,
        "platform": _describe_platform(),
        "packages": list(list_packages()),
    }


def list_imported_packages() -> list[str]:
    """The distributions that this process has imported something of, as `name==version`, sorted."""
    imported = {name.partition(".")[0] for name in sys.modules}
    return sorted(name for name, modules in modules_of_packages().items() if imported & modules)


@cache
def modules_of_packages() -> Mapping[str, Set[str]]:
    """The top-level modules of every installed distribution, by `name==version`; cached, as the
    lists of hundreds of packages take a tenth of a second."""
    modules = defaultdict[str, set[str]](set)
    for name, distribution in _named_distributions():
        # Of `torch/nn/functional.py,sha256=...` and `six.py,sha256=...` the module.
        lines = (distribution.read_text("RECORD") or "").splitlines()
        modules[name] |= {line.partition("/")[0].partition(".")[0] for line in lines}
    return modules


def describe_container() -> Json:
    """Image of the container: `{"image", "kind"}`, or `{"absent": reason}`.

    Podman and Apptainer name it; of other containers it is what the variable `CONTAINER_IMAGE`
    says, as an image does not know its own name.
    """
    named = os.environ.get("CONTAINER_IMAGE", "")
    if image := named or os.environ.get("APPTAINER_CONTAINER", ""):
        return {"image": redact(image), "kind": "named" if named else "apptainer"}
    try:
        lines = Path("/run/.containerenv").read_text().splitlines()
    except OSError:
        inside = Path("/.dockerenv").exists()
        return {"absent": "the image is unknown: set CONTAINER_IMAGE" if inside else "no container"}
    image = next((line[6:].strip('"') for line in lines if line.startswith("image=")), "")
    return {"image": redact(image), "kind": "podman"}


def _describe_platform() -> str:
    """As `platform.platform`, which starts a program for the name of the processor."""
    system = os.uname()
    libc = "".join(platform.libc_ver())
    parts = [system.sysname, system.release, system.machine]
    return "-".join(parts + ["with", libc] * bool(libc))


def list_packages() -> tuple[str, ...]:
    """Every installed distribution as `name==version`, sorted; cached."""
    return tuple(sorted({name for name, _ in _named_distributions()}))


@cache
def _named_distributions() -> tuple[tuple[str, Distribution], ...]:
    named = []
    for distribution in distributions():
        name, version = _name_and_version(distribution)
        if name:
            named.append((f"{name.lower()}=={version}", distribution))
    return tuple(named)


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


class _Unreadable(Exception):
    """There is no checkout with a commit, or it cannot be read."""


def describe_source(folder: Path) -> Json:
    """Commit of the checkout around `folder`, and the hash of uncommitted changes.

    `{"commit", "dirty", "diff_sha256"}`, or `{"absent": reason}` outside a checkout. Untracked
    files count as dirty by their names. Files that pass a filter (Git LFS) count as changed once
    they were touched.
    """
    program = shutil.which("git")
    if program is None:
        return {"absent": "git is not installed"}
    try:
        checkout = _find(folder)
        with _isolated(program, checkout) as git:
            commit = git.run("rev-parse", "--verify", "HEAD^{commit}").decode().strip()
            changes = git.run(*_STATUS)
        digest = _hash_changes(checkout.files, changes)
    except (OSError, ValueError, subprocess.SubprocessError, _Unreadable):
        return {"absent": "not a git checkout with a commit"}
    if not changes:
        return {"commit": commit, "dirty": False, "diff_sha256": ""}
    return {"commit": commit, "dirty": True, "diff_sha256": digest}


@dataclass(frozen=True, slots=True)
class _Checkout:
    files: Path
    """Folder that contains `.git`."""
    own: Path
    """HEAD and index; a linked worktree has its own."""
    common: Path
    """Objects, references and configuration."""


def _find(folder: Path) -> _Checkout:
    start = folder.resolve()
    for files in (start, *start.parents):
        git = files / ".git"
        if git.is_dir():
            return _Checkout(files, git, git)
        if git.is_file():
            match = _POINTER.fullmatch(_line(git))
            if match is None:
                break
            own = files / match[1]
            pointer = own / "commondir"
            return _Checkout(files, own, own / _line(pointer) if pointer.is_file() else own)
    raise _Unreadable


def _line(path: Path) -> str:
    return os.fsdecode(read_regular(path, _MOST_CONFIG_BYTES)).rstrip("\n")


@final
@dataclass(frozen=True, slots=True)
class _Git:
    program: str
    environment: dict[str, str]
    words: Sequence[str]

    def run(self, *arguments: str) -> bytes:
        return subprocess.run(  # noqa: S603  a fixed program with fixed arguments
            [self.program, "--no-pager", *self.words, *arguments],
            check=True,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_GIT_SECONDS,
            env=self.environment,
        ).stdout


@contextmanager
def _isolated(program: str, checkout: _Checkout) -> Iterator[_Git]:
    """Isolated git folder that shares data with the checkout, but no configuration."""
    with tempfile.TemporaryDirectory(prefix="trainwright-git-") as made:
        home = Path(made)
        git = home / "git"
        (git / "info").mkdir(parents=True)
        for name in ("objects", "refs"):
            (git / name).symlink_to((checkout.common / name).resolve())
        _link_file(checkout.common / "packed-refs", git / "packed-refs")
        _link_file(checkout.common / "info" / "exclude", git / "info" / "exclude")
        for shared in checkout.own.glob("sharedindex.*"):
            _link_file(shared, git / shared.name)
        (git / "HEAD").write_text(_line(checkout.own / "HEAD") + "\n")
        (git / "config").write_text("[core]\n\tbare = false\n")
        users = _users_settings(_Git(program, _environment(home, {}), ()))
        config = checkout.common / "config"
        asked = _Git(program, _environment(home, {"GIT_DIR": str(git)}), ())
        own = _settings(asked, config)
        if _WORD.fullmatch(found := own.get(_FORMAT, "")) and found:
            (git / "config").write_text(
                f"[core]\n\trepositoryformatversion = 1\n[extensions]\n\tobjectformat = {found}\n"
            )
        chosen = {**users, **{name: own[name] for name in own.keys() & _COMPARING}}
        words = [word for name, value in chosen.items() for word in ("-c", f"{name}={value}")]
        places = {
            "GIT_DIR": str(git),
            "GIT_WORK_TREE": str(checkout.files),
            "GIT_INDEX_FILE": str((checkout.own / "index").resolve()),
        }
        yield _Git(program, _environment(home, places), words)


def _link_file(source: Path, link: Path) -> None:
    if source.is_file():
        link.symlink_to(source.resolve())


def _environment(home: Path, more: dict[str, str]) -> dict[str, str]:
    """Our environment without git's variables, and without user or system configuration."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return {
        **kept,
        "HOME": str(home),
        "XDG_CONFIG_HOME": str(home),
        "LC_ALL": "C",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CEILING_DIRECTORIES": "/",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_TERMINAL_PROMPT": "0",
        **more,
    }


def _users_settings(git: _Git) -> dict[str, str]:
    """The user's ignore rules and line-ending settings."""
    home = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    found: dict[str, str] = {}
    for path in (home / "git" / "config", Path.home() / ".gitconfig"):
        found |= _settings(git, path)
    excludes = Path(found.get("core.excludesfile") or home / "git" / "ignore").expanduser()
    chosen = {name: found[name] for name in found.keys() & _COMPARING}
    return {**chosen, "core.excludesfile": str(excludes)} if excludes.is_file() else chosen


def _settings(git: _Git, file: Path) -> dict[str, str]:
    """Settings of one file, without its includes."""
    if not file.is_file() or file.stat().st_size > _MOST_CONFIG_BYTES:
        return {}
    try:
        listed = git.run("config", "--file", str(file), "--no-includes", "--null", "--list")
    except subprocess.CalledProcessError:
        return {}
    found: dict[str, str] = {}
    for entry in os.fsdecode(listed).split("\0"):
        name, _, value = entry.partition("\n")
        found[name] = value
    return {
        name: value
        for name, value in found.items()
        if name == "core.excludesfile" or _WORD.fullmatch(value)
    }


def _hash_changes(files: Path, changes: bytes) -> str:
    """SHA-256 over git's status of each changed file, and the content of tracked ones.

    Empty if the changed files exceed one gibibyte.
    """
    digest = hashlib.sha256(changes)
    room = _MOST_HASHED_BYTES
    for entry in filter(None, changes.split(b"\0")):
        if entry.startswith(b"??"):
            continue
        path = files / os.fsdecode(entry[3:])
        digest.update(b"\0" + entry + b"\0")
        try:
            kind = path.lstat().st_mode
        except OSError:
            continue
        if stat.S_ISLNK(kind):
            digest.update(os.fsencode(path.readlink()))
        elif stat.S_ISREG(kind):
            with opened_regular(path, follow=False) as stream:
                while room >= 0 and (block := stream.read(_BLOCK)):
                    digest.update(block)
                    room -= len(block)
        if room < 0:
            return ""
    return digest.hexdigest()
