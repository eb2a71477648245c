"""Conformance checks of checkpoint storages.

Each takes a function that reopens the same, initially empty, storage, as another process would.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import torch

from trainwright.checkpoint.files.file_entry import name_of
from trainwright.checkpoint.files.manifest import MANIFEST, VALUES
from trainwright.checkpoint.state import Snapshot
from trainwright.checkpoint.storages.checkpoint_files import CheckpointFiles, files_of
from trainwright.checkpoint.storages.storage import Block, CheckpointStorage, FileSet
from trainwright.checkpoint.store import Checkpoints, Loaded, NoCheckpoint
from trainwright.checkpoint.strict_json import Damaged
from trainwright.core.errors import Mistake, StorageFailed

Open = Callable[[], CheckpointStorage]


class CutShort(Exception):
    """The process dies here."""


def draft(step: int, sequence: int, mark: float = 0.0) -> FileSet:
    """Checkpoint of two parts, one of them with tensors."""
    parts = {
        "model": Snapshot(tensors={"w": torch.full((3, 5), mark), "none": torch.empty(0)}),
        "progress": Snapshot(values={"step": step}),
    }
    made = CheckpointFiles("a" * 32, sequence, step, "", 0.5, parts, {"seed": 1})
    return files_of(made, ())


def check_nothing_is_there_at_first(open_storage: Open) -> None:
    """An empty storage has no history, and reading creates none."""
    for _ in range(2):
        catalog = open_storage().open()
        assert (catalog.candidates, catalog.has_history, catalog.sequence) == ([], False, 0)
    assert isinstance(Checkpoints(open_storage(), 1).newest_valid(), NoCheckpoint)


def check_what_was_committed_is_there(open_storage: Open) -> None:
    """A committed checkpoint keeps its bytes, line and order, also for another process."""
    storage = open_storage()
    storage.open()
    lines = [storage.commit(draft(step, number)) for number, step in ((1, 10), (2, 20))]
    catalog = open_storage().open()
    assert [one.name for one in catalog.candidates] == [name_of(20), name_of(10)]
    assert [one.line for one in catalog.candidates] == lines[::-1]
    assert (catalog.sequence, catalog.lineage) == (2, "a" * 32)
    first = bytes(storage.read(name_of(10), VALUES, 10_000))
    assert b'"step": 10' in first
    assert first == bytes(open_storage().read(name_of(10), VALUES, 10_000))


def check_a_commit_that_is_cut_short_counts_as_nothing(open_storage: Open) -> None:
    """An interrupted commit, at any file, leaves nothing; older checkpoints stay, and the next
    commit succeeds."""
    storage = open_storage()
    storage.open()
    storage.commit(draft(10, 1, mark=1.0))
    for files_taken in range(3):
        for step in (10, 20):
            try:
                storage.commit(_cut(draft(step, 2), files_taken))
            except (CutShort, StorageFailed):
                pass
            else:
                raise AssertionError("the error passes")
            assert [one.name for one in open_storage().open().candidates] == [name_of(10)]
            _assert_loads(open_storage(), 10, 1.0)
    storage.commit(draft(20, 3, mark=3.0))
    _assert_loads(open_storage(), 20, 3.0)


def check_the_same_name_is_replaced(open_storage: Open) -> None:
    """A second commit of a name replaces the first."""
    storage = open_storage()
    storage.open()
    for number in (1, 2, 3):
        storage.commit(draft(10, number, mark=float(number)))
        catalog = open_storage().open()
        assert [(one.name, one.sequence) for one in catalog.candidates] == [(name_of(10), number)]
        _assert_loads(open_storage(), 10, float(number))


def check_what_is_lost_or_too_large_is_damaged(open_storage: Open) -> None:
    """Missing names, missing files, files over the limit, and names that escape the storage."""
    storage = open_storage()
    storage.open()
    storage.commit(draft(10, 1))
    for name, file, limit in (
        (name_of(11), VALUES, 10_000),
        (name_of(10), "absent.json", 10_000),
        (name_of(10), VALUES, 3),
    ):
        _assert_raises(Damaged, partial(storage.read, name, file, limit))
    for name in ("../other", "a/b", "", ".hidden"):
        bad = draft(20, 2)
        files: Iterator[tuple[str, list[bytes]]] = iter([(name, [b"x"]), (MANIFEST, [b"{}"])])
        sent = FileSet(bad.name, bad.lineage, 2, bad.score, 1, files)
        _assert_raises((Mistake, StorageFailed), partial(storage.commit, sent))
    assert [one.name for one in open_storage().open().candidates] == [name_of(10)]


def check_what_leaves_is_gone(open_storage: Open) -> None:
    """Removed checkpoints are neither candidates nor losses."""
    checkpoints = Checkpoints(open_storage(), 1)
    for step in range(1, 6):
        checkpoints.save(step, _parts(step), {}, float(step))
    assert sorted(Checkpoints(open_storage(), 1).names()) == [name_of(s) for s in (1, 4, 5)]
    found = Checkpoints(open_storage(), 1).newest_valid()
    assert isinstance(found, Loaded)
    assert (found.step, found.rejected) == (5, ())


def check_one_that_does_not_verify_is_set_aside(
    open_storage: Open, damage: Callable[[str], None]
) -> None:
    """After `damage` of the newest checkpoint the previous one is loaded, now and on reopening."""
    checkpoints = Checkpoints(open_storage(), 3)
    for step in (1, 2, 3):
        checkpoints.save(step, _parts(step), {}, float(step))
    damage(name_of(3))
    found = Checkpoints(open_storage(), 3).newest_valid()
    assert isinstance(found, Loaded)
    assert found.step == 2
    assert len(found.rejected) == 1
    assert name_of(3) in found.rejected[0]
    again = Checkpoints(open_storage(), 3).newest_valid()
    assert isinstance(again, Loaded)
    assert (again.step, again.rejected) == (2, ())


def check_what_a_run_left_never_ranks(open_storage: Open) -> None:
    """After a rollback the better score of the abandoned history does not count."""
    checkpoints = Checkpoints(open_storage(), 1)
    for step, score in ((10, 0.5), (20, 0.1), (10, 0.5)):
        checkpoints.save(step, _parts(step), {}, score)
    best = Checkpoints(open_storage(), 1).best_valid()
    assert isinstance(best, Loaded)
    assert best.step == 10


def check_copies_are_byte_for_byte(open_storage: Open, open_other: Open) -> None:
    """Copies between storages are byte-identical, with the same manifest."""
    first = Checkpoints(open_storage(), 1)
    first.save(10, _parts(10), {"seed": 1}, 0.25)
    other = Checkpoints(open_other(), 1)
    other.copy_from(open_storage(), name_of(10))
    for file in (MANIFEST, VALUES, "model.safetensors"):
        one = bytes(open_storage().read(name_of(10), file, 10_000))
        assert one == bytes(open_other().read(name_of(10), file, 10_000)), file
    found = Checkpoints(open_other(), 1).newest_valid()
    assert isinstance(found, Loaded)
    assert (found.step, found.score, found.inventory) == (10, 0.25, {"seed": 1})


def check_a_late_copy_leaves_no_newer_one_behind(open_storage: Open, open_other: Open) -> None:
    """A late copy abandons no newer checkpoint: the newest save is still the first to be loaded."""
    first = Checkpoints(open_storage(), 4)
    for step in (10, 20, 30):
        first.save(step, _parts(step), {}, float(step))
    other = Checkpoints(open_other(), 4)
    for step in (30, 10, 20):
        other.copy_from(open_storage(), name_of(step))
    again = Checkpoints(open_other(), 4)
    assert again.names() == [name_of(step) for step in (30, 20, 10)]
    assert again.best_names() == [name_of(step) for step in (10, 20, 30)]


def _parts(step: int) -> dict[str, Snapshot]:
    return {"model": Snapshot(tensors={"w": torch.full((4,), float(step))}, values=step)}


def _cut(files: FileSet, count: int) -> FileSet:
    """The set, whose consumer dies inside the file after this many."""

    def cut() -> Iterator[tuple[str, Iterator[Block]]]:
        for index, (name, blocks) in enumerate(files.files):
            yield name, _dying() if index == count else iter(blocks)

    return FileSet(files.name, files.lineage, files.sequence, files.score, files.size_bytes, cut())


def _dying() -> Iterator[Block]:
    yield b"x" * 100
    raise CutShort


def _assert_loads(storage: CheckpointStorage, step: int, mark: float) -> None:
    found = Checkpoints(storage, 1).newest_valid()
    assert isinstance(found, Loaded)
    assert (found.step, found.rejected) == (step, ())
    assert found.parts["model"].tensors["w"].eq(mark).all()


def _assert_raises(
    kinds: type[Exception] | tuple[type[Exception], ...], call: Callable[[], object]
) -> None:
    try:
        call()
    except kinds:
        return
    raise AssertionError(f"{kinds} is raised")
