"""The folder of a contract is a checkout whose configuration names programs: none of them runs."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from command import command, inside, write_project
from deadlines import within
from trainwright.core.files import read_json
from trainwright.tracking.environment import describe_source

pytestmark = pytest.mark.row("F-62")
_HOOKS = ("post-index-change", "post-checkout", "fsmonitor-watchman", "reference-transaction")


def git(folder: Path, *words: str, check: bool = True) -> None:
    who = (
        "-c",
        "user.name=a",
        "-c",
        "user.email=a@example.org",
        "-c",
        "protocol.file.allow=always",
    )
    subprocess.run(
        ["git", *who, *words],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        check=check,
        capture_output=True,
        timeout=within(20),
    )


def configure(checkout: Path, text: str, name: str = "config") -> None:
    with (checkout / ".git" / name).open("a") as config:
        config.write(text + "\n")


@pytest.fixture
def marker(tmp_path: Path) -> Path:
    """Present once a program of the checkout has run."""
    return tmp_path / "marker"


@pytest.fixture
def program(tmp_path: Path, marker: Path) -> Path:
    path = tmp_path / "program.sh"
    path.write_text(f'#!/bin/sh\necho "$@" >> {marker}\n')
    path.chmod(0o755)
    return path


@pytest.fixture
def checkout(tmp_path: Path, program: Path) -> Path:
    """A commit, a file changed since then, one touched, attributes that ask for every driver."""
    folder = tmp_path / "checkout"
    folder.mkdir()
    git(folder, "init", "-q")
    for name in ("changed.csv", "touched.csv"):
        (folder / name).write_text("1\n")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "a")
    (folder / "changed.csv").write_text("2\n")
    os.utime(folder / "touched.csv", (1, 1))
    configure(folder, "* filter=own diff=own merge=own\n", "info/attributes")
    (folder / ".gitattributes").write_text("* filter=own diff=own merge=own\n")
    for hook in _HOOKS:
        shutil.copy(program, folder / ".git" / "hooks" / hook)
    return folder


def run_plain_git(checkout: Path) -> None:
    """What a careless record would ask."""
    for words in (["status"], ["diff", "HEAD"]):
        git(checkout, *words, check=False)


NAMED: dict[str, str] = {
    "clean": '[filter "own"]\nclean = {program}\nrequired = true',
    "process": '[filter "own"]\nprocess = {program}',
    "smudge": '[filter "own"]\nsmudge = {program}\nclean = {program}',
    "fsmonitor": "[core]\nfsmonitor = {program}",
    "hooks": "[core]\nhooksPath = {folder}",
    "textconv": '[diff "own"]\ntextconv = {program}',
    "diff driver": '[diff "own"]\ncommand = {program}',
    "external diff": "[diff]\nexternal = {program}",
    "pager": "[core]\npager = {program}\n[pager]\nstatus = {program}\nconfig = {program}\n"
    "rev-parse = {program}",
    "alias": "[alias]\nstatus = !{program}\nrev-parse = !{program}\nconfig = !{program}",
    "editor": "[core]\neditor = {program}\naskPass = {program}\ngitProxy = {program}\n"
    "alternateRefsCommand = {program}\n[sequence]\neditor = {program}",
    "signatures": "[gpg]\nprogram = {program}\n[log]\nshowSignature = true",
    "credentials": "[credential]\nhelper = {program}",
    "submodule summary": "[status]\nsubmoduleSummary = true\n[diff]\nsubmodule = log\n"
    "[submodule]\nrecurse = true",
    "pack hook": "[uploadpack]\npackObjectsHook = {program}",
    "work tree": "[core]\nworktree = /\nfsmonitor = {program}",
}
"""Settings that name a program, by what git uses it for."""


@pytest.mark.parametrize("name", NAMED)
def test_a_program_that_the_configuration_names_never_runs(
    name: str, checkout: Path, program: Path, marker: Path
) -> None:
    configure(checkout, NAMED[name].format(program=program, folder=program.parent))
    said = describe_source(checkout)
    assert not marker.exists()
    assert said["dirty"]


@pytest.mark.parametrize("name", ["clean", "process", "fsmonitor", "diff driver", "external diff"])
def test_these_settings_do_run_it_under_plain_git(
    name: str, checkout: Path, program: Path, marker: Path
) -> None:
    configure(checkout, NAMED[name].format(program=program, folder=program.parent))
    run_plain_git(checkout)
    assert marker.exists()


def _included(checkout: Path, program: Path) -> None:
    evil = checkout / "evil.config"
    evil.write_text(f'[filter "own"]\nclean = {program}\n[core]\nfsmonitor = {program}\n')
    configure(checkout, f'[include]\npath = {evil}\n[includeIf "gitdir:/"]\npath = {evil}')


def _worktree_config(checkout: Path, program: Path) -> None:
    configure(checkout, "[core]\nrepositoryformatversion = 1\n[extensions]\nworktreeConfig = true")
    configure(checkout, f"[core]\nfsmonitor = {program}", "config.worktree")


def _lost_objects(checkout: Path, program: Path) -> None:
    """Objects of the commit are missing, and are to be fetched through a program."""
    configure(
        checkout,
        "[core]\nrepositoryformatversion = 1\n"
        f"sshCommand = {program}\n[extensions]\npartialClone = origin\n"
        '[remote "origin"]\nurl = ssh://example.org/x\npromisor = true\n'
        f"uploadpack = {program}\n",
    )
    tree = subprocess.run(
        ["git", "rev-parse", "HEAD^{tree}"], cwd=checkout, capture_output=True, text=True
    ).stdout.strip()
    (checkout / ".git" / "objects" / tree[:2] / tree[2:]).unlink()


def _helper_remote(checkout: Path, program: Path) -> None:
    _lost_objects(checkout, program)
    configure(
        checkout,
        f'[protocol "ext"]\nallow = always\n[remote "origin"]\nurl = ext::{program} %S\n',
    )


def _submodule(checkout: Path, program: Path) -> None:
    inner = checkout.parent / "inner"
    inner.mkdir()
    git(inner, "init", "-q")
    (inner / "a").write_text("1")
    git(inner, "add", ".")
    git(inner, "commit", "-qm", "a")
    git(checkout, "submodule", "add", "-q", str(inner), "inner")
    git(checkout, "commit", "-qam", "b")
    (checkout / "inner" / "a").write_text("2")
    evil = f'[core]\nfsmonitor = {program}\n[filter "own"]\nclean = {program}'
    configure(checkout, evil, "modules/inner/config")
    (checkout / "inner" / ".gitattributes").write_text("* filter=own\n")


def _nested(checkout: Path, program: Path) -> None:
    inner = checkout / "nested"
    inner.mkdir()
    git(inner, "init", "-q")
    configure(inner, f"[core]\nfsmonitor = {program}")


LAID: dict[str, Callable[[Path, Path], None]] = {
    "include": _included,
    "worktree": _worktree_config,
    "promisor by ssh": _lost_objects,
    "promisor by helper": _helper_remote,
    "submodule": _submodule,
    "nested": _nested,
}


@pytest.mark.parametrize("name", LAID)
def test_a_program_that_the_checkout_leads_to_never_runs(
    name: str, checkout: Path, program: Path, marker: Path
) -> None:
    LAID[name](checkout, program)
    marker.unlink(missing_ok=True)
    said = describe_source(checkout)
    assert not marker.exists()
    assert "commit" in said or "absent" in said


@pytest.mark.parametrize("name", ["promisor by ssh", "promisor by helper", "include", "submodule"])
def test_these_checkouts_do_run_it_under_plain_git(
    name: str, checkout: Path, program: Path, marker: Path
) -> None:
    LAID[name](checkout, program)
    marker.unlink(missing_ok=True)
    run_plain_git(checkout)
    assert marker.exists()


def test_variables_of_git_in_the_environment_are_not_asked(
    checkout: Path, program: Path, marker: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = describe_source(checkout)
    for name in ("GIT_EXTERNAL_DIFF", "GIT_SSH_COMMAND", "GIT_PAGER", "GIT_EDITOR"):
        monkeypatch.setenv(name, str(program))
    monkeypatch.setenv("GIT_DIR", "/nonexistent")
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "core.fsmonitor")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", str(program))
    assert describe_source(checkout) == expected
    assert not marker.exists()


def test_a_pipe_in_a_checkout_is_not_waited_for(checkout: Path) -> None:
    (checkout / ".git" / "HEAD").unlink()
    os.mkfifo(checkout / ".git" / "HEAD")
    assert "absent" in describe_source(checkout)


def test_training_records_the_commit_and_runs_nothing(
    checkout: Path, program: Path, marker: Path
) -> None:
    contract = write_project(checkout)
    git(checkout, "add", ".")
    git(checkout, "commit", "-qm", "b")
    configure(checkout, "\n".join(NAMED.values()).format(program=program, folder=program.parent))
    _included(checkout, program)
    marker.unlink(missing_ok=True)
    os.utime(checkout / "rows.csv", (1, 1))
    with inside(checkout):
        ran = command("train", contract, "--run", "one")
    assert ran.code in (0, 3), ran.err
    assert len(read_json(checkout / "runs" / "one" / "record.json")["git"]["commit"]) == 40
    assert not marker.exists()
