from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from trainwright.core.errors import Mistake
from trainwright.core.files import read_json
from trainwright.tracking.run_folder import RunFolder

pytestmark = pytest.mark.row("F-64")


def _link_out(place: Path) -> None:
    outside = place.parents[2] / "outside"
    outside.mkdir(exist_ok=True)
    place.symlink_to(outside)


LAID: dict[str, Callable[[Path], None]] = {
    "a pipe": os.mkfifo,
    "a link out": _link_out,
    "a link to a device": lambda place: place.symlink_to("/dev/null"),
}


@pytest.mark.parametrize("laid", LAID)
@pytest.mark.parametrize("name", ["plan.json", "data/quality.json", "checkpoints/step-0", "bundle"])
def test_what_leads_out_of_a_run_or_never_answers_is_refused(
    tmp_path: Path, name: str, laid: str
) -> None:
    folder = RunFolder.create(tmp_path / "runs", "one")
    LAID[laid](folder.path / name)
    with pytest.raises(Mistake, match="files and folders only"):
        RunFolder.find(tmp_path / "runs", "one")


def test_a_link_inside_the_run_is_followed(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, "one")
    (folder.path / "newest").symlink_to("checkpoints")
    assert RunFolder.find(tmp_path, "one").path == folder.path


def test_json_is_read_from_files_only(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.json")
    with pytest.raises(OSError, match="not a regular file"):
        read_json(tmp_path / "a.json")


def test_json_beyond_a_lower_limit_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.json").write_text("[1, 2, 3]")
    assert read_json(tmp_path / "a.json") == [1, 2, 3]
    monkeypatch.setattr("trainwright.core.files.MOST_JSON_BYTES", 8)
    with pytest.raises(ValueError, match="more than 8 bytes"):
        read_json(tmp_path / "a.json")


@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_who_may_read_a_run_is_the_umasks(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        folder = RunFolder.create(tmp_path, "one")
    finally:
        os.umask(before)
    assert stat.S_IMODE(folder.path.stat().st_mode) == 0o777 & ~umask
