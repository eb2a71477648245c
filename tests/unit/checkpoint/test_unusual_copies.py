"""Copies of a run on a mounted disk, where what stands in an object's place may be anything."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainwright.checkpoint.copies.copied_file_sets import CopiedFile, CopiedSet, open_sets
from trainwright.checkpoint.storages.object_files import ObjectFiles, open_system
from trainwright.checkpoint.strict_json import Damaged
from trainwright.core.errors import StorageFailed
from trainwright.core.files import hash_bytes
from trainwright.run.recover.recover_parts import bring_files
from trainwright.tracking.run_folder import RunFolder


def test_what_has_no_size_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A device or a pipe says so, and may never end."""
    (tmp_path / "object").write_bytes(b"more than nothing")
    system, root = open_system(tmp_path.as_uri())
    files = ObjectFiles(system, root)
    assert files.read(files.path("object"), 4096) == b"more than nothing"
    monkeypatch.setattr(system, "info", lambda _: {"type": "other", "size": 0})
    assert files.read(files.path("object"), 4096) == b""


def test_a_folder_is_no_object(tmp_path: Path) -> None:
    (tmp_path / "object").mkdir()
    files = ObjectFiles(*open_system(tmp_path.as_uri()))
    with pytest.raises(Damaged, match="a folder"):
        files.read(files.path("object"), 4096)


def test_a_list_of_more_files_than_a_run_has_is_refused() -> None:
    files = tuple(CopiedFile(f"data/f{number}", 0, ()) for number in range(10_001))
    with pytest.raises(Damaged, match="10,001 files"):
        CopiedSet.from_bytes(CopiedSet(1, "run", "l", "now", (), files).to_bytes())


@pytest.mark.parametrize("plan", [b"[" * 1000 + b"]" * 1000, b"{}", b"[]", b'"x"', b"\xff"])
def test_a_plan_that_is_none_ends_with_an_error_of_ours(plan: bytes, tmp_path: Path) -> None:
    sets = open_sets((tmp_path / "bucket").as_uri(), "run")
    sets.put_piece(plan, set())
    piece = CopiedFile("plan.json", len(plan), (hash_bytes(plan),))
    (tmp_path / "runs").mkdir()
    with pytest.raises(StorageFailed, match=r"plan\.json"):
        bring_files(
            CopiedSet(1, "run", "l", "now", (), (piece,)), sets, RunFolder(tmp_path / "runs")
        )
