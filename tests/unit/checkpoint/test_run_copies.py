"""Copies of a run's own files: which, and a whole set of one moment or none."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("fsspec")

from trainwright.checkpoint.copies import run_copies
from trainwright.checkpoint.copies.copied_file_sets import CopiedSet, FileSets, NoSet
from trainwright.checkpoint.copies.run_copies import RunCopies
from trainwright.checkpoint.storages.object_files import ObjectFiles, open_system
from trainwright.checkpoint.strict_json import Damaged
from trainwright.core.errors import StorageFailed
from trainwright.core.faultpoints import FaultInjected, arm
from trainwright.tracking import checksums
from trainwright.tracking.run_folder import RunFolder


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    made = RunFolder.create(tmp_path / "runs", "one")
    made.contract.write_text("name: one\n")
    made.plan.write_text("{}")
    made.signals.write_text('{"step": 1, "loss": 0.5}\n')
    (made.data / "split.json").write_text("{}")
    return made


@pytest.fixture
def sets(tmp_path: Path) -> FileSets:
    return FileSets(ObjectFiles(*open_system(f"file://{tmp_path}/away/one")))


def copied(sets: FileSets) -> dict[str, bytes]:
    found = sets.newest()
    assert isinstance(found, CopiedSet)
    return {file.path: b"".join(sets.read(file)) for file in found.files}


def test_every_file_with_a_checksum_is_copied(folder: RunFolder, sets: FileSets) -> None:
    for part in checksums._FOLDERS:
        (folder.path / part).mkdir(exist_ok=True)
        (folder.path / part / "one.json").write_text("{}")
    for path in (folder.preflight, folder.evaluation, folder.predictions):
        path.write_text("{}")
    moment = RunCopies(folder, sets, "a" * 32).moment()
    assert checksums._names(folder) <= {name for name, _ in moment.sizes}


def copy(copies: RunCopies) -> bool:
    return copies.copy(copies.moment())


def test_what_was_copied_is_read_back(folder: RunFolder, sets: FileSets) -> None:
    assert isinstance(sets.newest(), NoSet)
    assert copy(RunCopies(folder, sets, "a" * 32))
    assert copied(sets) == {
        "contract.yaml": b"name: one\n",
        "plan.json": b"{}",
        "signals.jsonl": b'{"step": 1, "loss": 0.5}\n',
        "data/split.json": b"{}",
    }


def test_nothing_leaves_that_the_run_did_not_write(
    folder: RunFolder, sets: FileSets, tmp_path: Path
) -> None:
    (tmp_path / "key.pem").write_text("a secret")
    for name in (".env", "notes.txt", "lock", "report.html", ".tmp-1-plan.json", "data/.netrc"):
        (folder.path / name).write_text("a secret")
    (folder.data / "link.json").symlink_to(tmp_path / "key.pem")
    assert copy(RunCopies(folder, sets, "a" * 32))
    assert not [path for path, data in copied(sets).items() if b"secret" in data]
    away = [path.read_bytes() for path in (tmp_path / "away").rglob("*") if path.is_file()]
    assert not [data for data in away if b"secret" in data]


def test_a_file_that_grows_is_copied_as_it_was_and_in_whole_lines(
    folder: RunFolder, sets: FileSets
) -> None:
    copies = RunCopies(folder, sets, "a" * 32)
    moment = copies.moment()
    with folder.signals.open("a") as stream:
        stream.write('{"step": 2, "loss": 0.4}\n{"step": 3, "lo')
    assert copies.copy(moment)
    assert copied(sets)["signals.jsonl"] == b'{"step": 1, "loss": 0.5}\n'
    assert copy(copies)
    assert copied(sets)["signals.jsonl"].endswith(b'{"step": 2, "loss": 0.4}\n')


def test_a_course_that_the_run_leaves_meanwhile_is_not_copied(
    folder: RunFolder, sets: FileSets
) -> None:
    copies = RunCopies(folder, sets, "a" * 32)
    moment = copies.moment()
    copies.go_back()
    assert not copies.copy(moment)
    assert isinstance(sets.newest(), NoSet)


@pytest.mark.parametrize("fault", ["copy.file:1:raise", "copy.file:2:raise", "copy.set:1:raise"])
def test_a_copy_that_is_cut_short_leaves_the_set_before_it(
    fault: str, folder: RunFolder, sets: FileSets
) -> None:
    assert copy(RunCopies(folder, sets, "a" * 32))
    before = copied(sets)
    folder.plan.write_text('{"new": 1}')
    folder.contract.write_text("name: two\n")
    arm(fault)
    with pytest.raises(FaultInjected):
        copy(RunCopies(folder, sets, "a" * 32))
    arm("")
    assert copied(sets) == before
    assert copy(RunCopies(folder, sets, "a" * 32))
    assert copied(sets)["plan.json"] == b'{"new": 1}'


def test_what_did_not_change_is_not_sent_again(
    folder: RunFolder, sets: FileSets, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(run_copies, "PIECE_BYTES", 64)
    folder.signals.write_text("".join(f'{{"step": {n}, "loss": 1}}\n' for n in range(100)))
    assert copy(RunCopies(folder, sets, "a" * 32))
    pieces = set(sets.pieces())
    with folder.signals.open("a") as stream:
        stream.write('{"step": 100, "loss": 1}\n')
    arm("copy.file:2:raise")
    assert copy(RunCopies(folder, sets, "a" * 32)), "one piece and no more is sent"
    assert len(pieces - set(sets.pieces())) == 1, "what no set needs is removed"
    assert len(list((tmp_path / "away").rglob("set-*.json"))) == 1


def test_what_is_no_copy_stays(folder: RunFolder, sets: FileSets, tmp_path: Path) -> None:
    own = [tmp_path / "away/one/files" / name for name in ("notes.txt", "old/notes.txt")]
    own[1].parent.mkdir(parents=True)
    for path in own:
        path.write_text("mine")
    assert copy(RunCopies(folder, sets, "a" * 32))
    assert [path.read_text() for path in own] == ["mine", "mine"]


def test_a_list_that_was_cut_short_counts_as_nothing(
    folder: RunFolder, sets: FileSets, tmp_path: Path
) -> None:
    assert copy(RunCopies(folder, sets, "a" * 32))
    (whole,) = (tmp_path / "away").rglob("set-*.json")
    whole.with_name("set-000000000002.json").write_bytes(whole.read_bytes()[:100])
    found = sets.newest()
    assert isinstance(found, CopiedSet)
    assert found.number == 1
    whole.unlink()
    with pytest.raises(StorageFailed, match=r"set-000000000002\.json"):
        sets.newest()


@pytest.mark.parametrize("harm", ["lost", "changed", "short"])
def test_a_piece_that_is_not_what_was_written_is_damage(
    harm: str, folder: RunFolder, sets: FileSets, tmp_path: Path
) -> None:
    assert copy(RunCopies(folder, sets, "a" * 32))
    found = sets.newest()
    assert isinstance(found, CopiedSet)
    (file,) = (one for one in found.files if one.path == "contract.yaml")
    path = tmp_path / "away/one/files" / file.pieces[0]
    data = path.read_bytes()
    path.unlink() if harm == "lost" else path.write_bytes(
        data[:-1] if harm == "short" else data[:-1] + b"!"
    )
    with pytest.raises(Damaged):
        b"".join(sets.read(file))


def test_of_two_processes_the_earlier_one_copies_no_more(folder: RunFolder, sets: FileSets) -> None:
    first, second = (RunCopies(folder, sets, "a" * 32) for _ in range(2))
    assert copy(first)
    assert copy(second)
    folder.plan.write_text('{"new": 1}')
    assert copy(second)
    folder.plan.write_text('{"new": 2}')
    with pytest.raises(StorageFailed, match="another process copies this run"):
        copy(first)


def test_the_files_of_another_run_are_told_apart(folder: RunFolder, sets: FileSets) -> None:
    assert copy(RunCopies(folder, sets, "a" * 32))
    assert not RunCopies(folder, sets, "a" * 32).is_of_another()
    assert RunCopies(folder, sets, "b" * 32).is_of_another()
