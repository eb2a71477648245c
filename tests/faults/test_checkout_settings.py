"""The folder of a contract is a checkout whose configuration names programs, as those of filters,
hooks and remotes: git starts none of them while its commit is recorded. Here each is `true`, and
git itself writes down what it starts (`GIT_TRACE`)."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

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
def program() -> str:
    found = shutil.which("true")
    assert found
    return found


@pytest.fixture
def trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What each git of the test does, line by line."""
    run, path = subprocess.run, tmp_path / "trace"

    def traced(words: Sequence[str], **given: Any) -> Any:
        environment = given.pop("env", None) or os.environ
        return run(words, **given, env={**environment, "GIT_TRACE": str(path)})

    monkeypatch.setattr(subprocess, "run", traced)
    return path


def starts(trace: Path) -> list[str]:
    """The lines about programs that git started."""
    assert "git status" in trace.read_text()
    return [line for line in trace.read_text().splitlines() if "run_command" in line]


@pytest.fixture
def checkout(tmp_path: Path, program: str) -> Path:
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
        (folder / ".git" / "hooks" / hook).symlink_to(program)
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
    "hooks": "[core]\nhooksPath = hooks",
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
    name: str, checkout: Path, program: str, trace: Path
) -> None:
    configure(checkout, NAMED[name].format(program=program))
    said = describe_source(checkout)
    assert not starts(trace)
    assert said["dirty"]


@pytest.mark.parametrize("name", ["clean", "process", "fsmonitor", "diff driver", "external diff"])
def test_these_settings_do_run_it_under_plain_git(
    name: str, checkout: Path, program: str, trace: Path
) -> None:
    configure(checkout, NAMED[name].format(program=program))
    run_plain_git(checkout)
    assert starts(trace)


def _included(checkout: Path, program: str) -> None:
    other = checkout / "other.config"
    other.write_text(f'[filter "own"]\nclean = {program}\n[core]\nfsmonitor = {program}\n')
    configure(checkout, f'[include]\npath = {other}\n[includeIf "gitdir:/"]\npath = {other}')


def _worktree_config(checkout: Path, program: str) -> None:
    configure(checkout, "[core]\nrepositoryformatversion = 1\n[extensions]\nworktreeConfig = true")
    configure(checkout, f"[core]\nfsmonitor = {program}", "config.worktree")


def _lost_objects(checkout: Path, program: str) -> None:
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


def _helper_remote(checkout: Path, program: str) -> None:
    _lost_objects(checkout, program)
    configure(
        checkout,
        f'[protocol "ext"]\nallow = always\n[remote "origin"]\nurl = ext::{program} %S\n',
    )


def _submodule(checkout: Path, program: str) -> None:
    inner = checkout.parent / "inner"
    inner.mkdir()
    git(inner, "init", "-q")
    (inner / "a").write_text("1")
    git(inner, "add", ".")
    git(inner, "commit", "-qm", "a")
    git(checkout, "submodule", "add", "-q", str(inner), "inner")
    git(checkout, "commit", "-qam", "b")
    (checkout / "inner" / "a").write_text("2")
    own = f'[core]\nfsmonitor = {program}\n[filter "own"]\nclean = {program}'
    configure(checkout, own, "modules/inner/config")
    (checkout / "inner" / ".gitattributes").write_text("* filter=own\n")


def _nested(checkout: Path, program: str) -> None:
    inner = checkout / "nested"
    inner.mkdir()
    git(inner, "init", "-q")
    configure(inner, f"[core]\nfsmonitor = {program}")


LAID: dict[str, Callable[[Path, str], None]] = {
    "include": _included,
    "worktree": _worktree_config,
    "promisor by ssh": _lost_objects,
    "promisor by helper": _helper_remote,
    "submodule": _submodule,
    "nested": _nested,
}


@pytest.mark.parametrize("name", LAID)
def test_a_program_that_the_checkout_leads_to_never_runs(
    name: str, checkout: Path, program: str, trace: Path
) -> None:
    LAID[name](checkout, program)
    trace.unlink(missing_ok=True)
    said = describe_source(checkout)
    assert not starts(trace)
    assert "commit" in said or "absent" in said


@pytest.mark.parametrize("name", ["promisor by ssh", "promisor by helper", "include", "submodule"])
def test_these_checkouts_do_run_it_under_plain_git(
    name: str, checkout: Path, program: str, trace: Path
) -> None:
    LAID[name](checkout, program)
    trace.unlink(missing_ok=True)
    run_plain_git(checkout)
    assert starts(trace)


def test_variables_of_git_in_the_environment_are_not_asked(
    checkout: Path, program: str, trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = describe_source(checkout)
    for name in ("GIT_EXTERNAL_DIFF", "GIT_SSH_COMMAND", "GIT_PAGER", "GIT_EDITOR"):
        monkeypatch.setenv(name, program)
    monkeypatch.setenv("GIT_DIR", "/nonexistent")
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "core.fsmonitor")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", program)
    assert describe_source(checkout) == expected
    assert not starts(trace)


def test_a_head_that_is_no_file_is_not_read(checkout: Path) -> None:
    (checkout / ".git" / "HEAD").unlink()
    (checkout / ".git" / "HEAD").mkdir()
    assert "absent" in describe_source(checkout)


def test_training_records_the_commit_and_starts_nothing(
    checkout: Path, program: str, trace: Path
) -> None:
    contract = write_project(checkout)
    git(checkout, "add", ".")
    git(checkout, "commit", "-qm", "b")
    configure(checkout, "\n".join(NAMED.values()).format(program=program))
    _included(checkout, program)
    trace.unlink(missing_ok=True)
    os.utime(checkout / "rows.csv", (1, 1))
    with inside(checkout):
        ran = command("train", contract, "--run", "one")
    assert ran.code in (0, 3), ran.err
    assert len(read_json(checkout / "runs" / "one" / "record.json")["git"]["commit"]) == 40
    assert not starts(trace)
