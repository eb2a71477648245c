"""What is recorded of an honest checkout is what git itself would say of it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from deadlines import within
from trainwright.tracking.environment import describe_source


def git(folder: Path, *words: str) -> str:
    who = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    done = subprocess.run(
        ["git", *who, *words],
        cwd=folder,
        check=True,
        capture_output=True,
        text=True,
        timeout=within(20),
    )
    return done.stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "checkout"
    (folder / "inner").mkdir(parents=True)
    git(folder, "init", "-q")
    (folder / "inner" / "a").write_text("1\n")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "a")
    return folder


def test_the_commit_is_found_from_a_folder_inside(checkout: Path) -> None:
    said = describe_source(checkout / "inner")
    assert said == {"commit": git(checkout, "rev-parse", "HEAD"), "dirty": False, "diff_sha256": ""}


def test_a_packed_checkout_reads_as_a_loose_one(checkout: Path) -> None:
    loose = describe_source(checkout)
    git(checkout, "gc", "-q")
    assert describe_source(checkout) == loose


def test_a_linked_worktree_has_its_own_commit(checkout: Path) -> None:
    git(checkout, "worktree", "add", "-q", "../linked", "-b", "other")
    linked = checkout.parent / "linked"
    (linked / "inner" / "a").write_text("2\n")
    git(linked, "commit", "-qam", "b")
    assert describe_source(linked)["commit"] == git(linked, "rev-parse", "HEAD")
    assert describe_source(linked)["commit"] != describe_source(checkout)["commit"]


def test_a_file_that_was_only_touched_is_no_change(checkout: Path) -> None:
    os.utime(checkout / "inner" / "a", (1, 1))
    assert not describe_source(checkout)["dirty"]


def test_what_the_checkout_or_the_user_ignores_is_no_change(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    (checkout / "one.log").write_text("1")
    (checkout / "two.swp").write_text("1")
    assert describe_source(checkout)["dirty"]
    (checkout / ".git" / "info").mkdir(exist_ok=True)
    (checkout / ".git" / "info" / "exclude").write_text("*.log\n")
    (tmp_path / "home" / "git").mkdir(parents=True)
    (tmp_path / "home" / "git" / "ignore").write_text("*.swp\n")
    assert not describe_source(checkout)["dirty"]


def test_line_ends_that_the_checkout_converts_are_no_change(checkout: Path) -> None:
    git(checkout, "config", "core.autocrlf", "true")
    (checkout / "inner" / "a").unlink()
    git(checkout, "checkout", "inner/a")
    os.utime(checkout / "inner" / "a", (1, 1))
    assert (checkout / "inner" / "a").read_bytes() == b"1\r\n"
    assert not describe_source(checkout)["dirty"]


def test_staged_removed_and_untracked_files_are_changes(checkout: Path) -> None:
    hashes = {describe_source(checkout)["diff_sha256"]}
    (checkout / "new").write_text("1")
    hashes.add(describe_source(checkout)["diff_sha256"])
    git(checkout, "add", "new")
    hashes.add(describe_source(checkout)["diff_sha256"])
    (checkout / "inner" / "a").unlink()
    hashes.add(describe_source(checkout)["diff_sha256"])
    assert len(hashes) == 4
