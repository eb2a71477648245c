"""Records of a run that were edited with their hashes: named and refused, never a traceback, and
never a verdict that its own clauses deny."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from command import CONTRACT, command, inside, write_project
from trainwright.core.files import hash_file
from trainwright.predictor.bundle import MANIFEST
from trainwright.tracking.checksums import write_checksums
from trainwright.tracking.identity import read_identity
from trainwright.tracking.run_folder import RunFolder

pytestmark = pytest.mark.row("F-64")
EDITS: dict[str, tuple[str, Callable[[Any], object]]] = {
    "another verdict": ("evaluation.json", lambda one: one["verdict"].update(status="invalid")),
    "no clauses": ("evaluation.json", lambda one: one["verdict"].update(clauses=[{}])),
    "a clause": ("evaluation.json", lambda one: one["verdict"]["clauses"][0].update(status="x")),
    "metrics": ("evaluation.json", lambda one: one["evaluation"].update(metrics="x")),
    "budget": ("plan.json", lambda one: one["contract"]["budget"].update(hours=-5)),
    "contract": ("plan.json", lambda one: one.update(contract=[5])),
    "overrides": ("plan.json", lambda one: one.update(overrides=5, request=[])),
    "profile": ("data/profile.json", lambda one: one["columns"][0].pop("distinct")),
    "quantiles": ("data/profile.json", lambda one: one["columns"][0].update(quantiles=["x"] * 9)),
    "columns": ("data/manifest.json", lambda one: one["facts"]["columns"][0].update(more=1)),
    "files": ("data/manifest.json", lambda one: one["facts"].update(files=[5])),
    "record": ("record.json", lambda one: one.update(ending=[])),
    "column": ("bundle/signature.json", lambda one: one.update(columns=["x"])),
    "type": ("bundle/signature.json", lambda one: one["columns"][0].pop("type")),
    "time": ("record.json", lambda one: one.update(seconds=[])),
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("records")
    write_project(folder, CONTRACT.replace("target: 0.6", "target: 0.6\n  resamples: 100"))
    with inside(folder):
        assert command("train", "small.yaml", "--run", "one").code in (0, 3)
    return folder


def edited(project: Path, tmp_path: Path, file: str, edit: Callable[[Any], object]) -> Path:
    """The project with an edited file of the run, and hashes that fit."""
    here = Path(shutil.copytree(project, tmp_path / "project"))
    path = here / "runs" / "one" / file
    value = json.loads(path.read_bytes())
    edit(value)
    path.write_text(json.dumps(value))
    folder = RunFolder(here / "runs" / "one")
    if path.parent == folder.bundle:
        manifest = json.loads((folder.bundle / MANIFEST).read_bytes())
        size = path.stat().st_size
        manifest["files"][path.name] = {"sha256": hash_file(path), "size_bytes": size}
        (folder.bundle / MANIFEST).write_text(json.dumps(manifest))
    try:
        write_checksums(folder, read_identity(folder))
    except AttributeError:  # nothing is bound to such a plan
        folder.checksums.unlink()
    return here


@pytest.mark.parametrize(
    ("name", "words", "code"),
    [
        ("another verdict", ("evaluate", "one"), 13),
        ("no clauses", ("runs", "show", "one"), 13),
        ("a clause", ("evaluate", "one"), 13),
        ("metrics", ("runs", "show", "one", "--json"), 13),
        ("metrics", ("resume", "one"), 13),
        ("budget", ("evaluate", "one"), 13),
        ("contract", ("data", "diff", "one", "rows.csv"), 13),
        ("contract", ("resume", "one"), 13),
        ("overrides", ("resume", "one"), 13),
        ("profile", ("data", "diff", "one", "rows.csv"), 13),
        ("quantiles", ("data", "diff", "one", "rows.csv"), 13),
        ("columns", ("data", "diff", "one", "rows.csv"), 13),
        ("files", ("evaluate", "one", "rows.csv"), 13),
        ("files", ("resume", "one"), 13),
        ("record", ("runs", "show", "one"), 13),
        ("time", ("runs", "show", "one"), 13),
        ("column", ("runs", "show", "one", "--json"), 13),
        ("type", ("runs", "show", "one"), 13),
    ],
)
def test_an_edited_record(
    project: Path, tmp_path: Path, name: str, words: tuple[str, ...], code: int
) -> None:
    file, edit = EDITS[name]
    with inside(edited(project, tmp_path, file, edit)):
        ran = command(*words)
    assert ran.code == code, ran.out + ran.err
    assert file.rpartition("/")[2].partition(".")[0] in ran.err


def test_a_verdict_in_the_record_that_is_not_the_runs(project: Path, tmp_path: Path) -> None:
    def claim(record: Any) -> None:
        record["ending"]["verdict"] = "invalid"

    with inside(edited(project, tmp_path, "record.json", claim)):
        ran = command("runs", "verify", "one")
    assert ran.code == 13
    assert "its verdict is not that of evaluation.json" in ran.out + ran.err
