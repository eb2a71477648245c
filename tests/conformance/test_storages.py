"""Every storage of checkpoints through the same checks: a folder, memory, and S3."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
fsspec = pytest.importorskip("fsspec")

from object_store import object_store  # noqa: E402
from trainwright.checkpoint.files.file_entry import name_of  # noqa: E402
from trainwright.checkpoint.storages.local_storage import LocalStorage  # noqa: E402
from trainwright.checkpoint.storages.object_storage import ObjectStorage, open_objects  # noqa: E402
from trainwright.checkpoint.storages.storage import CheckpointStorage  # noqa: E402
from trainwright.checkpoint.store import Checkpoints, Loaded  # noqa: E402
from trainwright.core.errors import Mistake, StorageFailed  # noqa: E402
from trainwright.testing import storage_conformance  # noqa: E402

pytestmark = pytest.mark.torch

KINDS = ["folder", "mounted", "memory", "s3"]
CHECKS = [
    storage_conformance.check_nothing_is_there_at_first,
    storage_conformance.check_what_was_committed_is_there,
    storage_conformance.check_a_commit_that_is_cut_short_counts_as_nothing,
    storage_conformance.check_the_same_name_is_replaced,
    storage_conformance.check_what_is_lost_or_too_large_is_damaged,
    storage_conformance.check_what_leaves_is_gone,
    storage_conformance.check_what_a_run_left_never_ranks,
]


@pytest.fixture(scope="session")
def s3() -> Iterator[dict[str, str]]:
    """How the environment leads to an S3 server of our own."""
    with object_store() as settings:
        yield settings


@dataclass(frozen=True)
class Place:
    """A storage that can be opened anew, and a way to spoil a file of it."""

    open: Callable[[], CheckpointStorage]
    spoil: Callable[[str], None]


@pytest.fixture
def place_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Callable[[str], Place]:
    def make(kind: str) -> Place:
        if kind == "folder":
            return _folder(tmp_path / uuid.uuid4().hex)
        name = f"b{uuid.uuid4().hex}"
        if kind == "s3":
            for key, value in request.getfixturevalue("s3").items():
                monkeypatch.setenv(key, value)
            files = fsspec.filesystem("s3", skip_instance_cache=True)
            files.mkdir(name)
        url = f"{kind}://{name}/runs/one"
        if kind == "mounted":
            url = f"file://{tmp_path}/{name}/runs/one"
        return Place(lambda: open_objects(url), lambda step: _spoil(open_objects(url), step))

    return make


def _folder(folder: Path) -> Place:
    def spoil(name: str) -> None:
        path = folder / name / "model.safetensors"
        path.write_bytes(path.read_bytes()[:-1] + b"!")

    return Place(lambda: LocalStorage(folder), spoil)


def _objects(storage: ObjectStorage) -> list[str]:
    storage._files.invalidate_cache()
    return sorted(str(path) for path in storage._files.find(storage._root))


def _spoil(storage: ObjectStorage, name: str) -> None:
    (path,) = [p for p in _objects(storage) if name in p and p.endswith("model.safetensors")]
    storage._files.pipe_file(path, storage._files.cat_file(path)[:-1] + b"!")


@pytest.mark.extended
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_a_storage(check: Any, kind: str, place_of: Callable[[str], Place]) -> None:
    check(place_of(kind).open)


@pytest.mark.extended
@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_one_is_set_aside(kind: str, place_of: Callable[[str], Place]) -> None:
    place = place_of(kind)
    storage_conformance.check_one_that_does_not_verify_is_set_aside(place.open, place.spoil)


@pytest.mark.extended
@pytest.mark.parametrize(
    ("kind", "to"),
    [("folder", "memory"), ("memory", "folder"), ("folder", "s3"), ("s3", "folder")],
)
def test_copies(kind: str, to: str, place_of: Callable[[str], Place]) -> None:
    storage_conformance.check_copies_are_byte_for_byte(place_of(kind).open, place_of(to).open)
    storage_conformance.check_a_late_copy_leaves_no_newer_one_behind(
        place_of(kind).open, place_of(to).open
    )


@pytest.mark.parametrize("kind", ["memory", "s3"])
def test_a_partial_upload_of_a_dead_process_never_counts(
    kind: str, place_of: Callable[[str], Place]
) -> None:
    place = place_of(kind)
    checkpoints = Checkpoints(place.open(), 3)
    for step in (1, 2):
        checkpoints.save(step, storage_conformance._parts(step), {})
    storage = place.open()
    assert isinstance(storage, ObjectStorage)
    (manifest,) = [p for p in _objects(storage) if name_of(2) in p and p.endswith("manifest.json")]
    storage._files.rm_file(manifest)
    found = Checkpoints(place.open(), 3).newest_valid()
    assert isinstance(found, Loaded)
    assert (found.step, found.rejected) == (1, ())
    assert not [path for path in _objects(storage) if name_of(2) in path]


class Truncating:
    """A file system that keeps less than it is given, or fails at the manifest."""

    def __init__(self, files: Any, breaks: str) -> None:
        self._files, self._breaks = files, breaks

    def __getattr__(self, name: str) -> Any:
        return getattr(self._files, name)

    def pipe_file(self, path: str, data: bytes) -> None:
        if self._breaks == "manifest" and path.endswith("manifest.json"):
            raise ConnectionError("key AKIAABCDEFGHIJKLMNOP was refused at s3://user:pw@host")
        self._files.pipe_file(path, data)

    def info(self, path: str) -> Any:
        found = dict(self._files.info(path))
        if self._breaks == "length" and path.endswith("model.safetensors"):
            found["size"] -= 1
        return found


@pytest.mark.extended
@pytest.mark.parametrize("breaks", ["manifest", "length"])
@pytest.mark.parametrize("kind", ["memory", "s3"])
def test_an_upload_that_fails_leaves_nothing_and_says_no_secret(
    kind: str, breaks: str, place_of: Callable[[str], Place]
) -> None:
    place = place_of(kind)
    Checkpoints(place.open(), 3).save(1, storage_conformance._parts(1), {})
    storage = place.open()
    assert isinstance(storage, ObjectStorage)
    before = _objects(storage)
    broken = Checkpoints(ObjectStorage(Truncating(storage._files, breaks), storage._root), 3)
    with pytest.raises(StorageFailed) as caught:
        broken.save(2, storage_conformance._parts(2), {})
    assert "AKIA" not in str(caught.value)
    assert "user:pw" not in str(caught.value)
    assert [p for p in _objects(storage) if "pointers" not in p] == [
        p for p in before if "pointers" not in p
    ]


def test_an_address_that_leads_nowhere_is_a_mistake() -> None:
    with pytest.raises(Mistake, match="is not a supported storage"):
        open_objects("nothing://there")


def test_a_store_that_does_not_answer_is_a_storage_error(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("s3fs")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    with pytest.raises(StorageFailed):
        open_objects("s3://bucket/runs").open()


def test_removed_checkpoints_leave_no_empty_folders_on_a_mounted_disk(tmp_path: Path) -> None:
    """Nor do those that an earlier version or a process that died has left."""
    root = tmp_path / "runs" / "one"
    store = Checkpoints(open_objects(f"file://{root}"), keep_top_k=1, keep_last=1)
    for step in range(4):
        store.save(step, storage_conformance._parts(step), {})
    kept = sorted(path.name for path in root.glob("step-*"))
    assert kept == sorted(path.parent.name for path in root.glob("step-*/manifest.json"))
    assert len(kept) < 4
    (root / "step-0000000009-000000000009").mkdir()
    (root / "notes").mkdir()
    open_objects(f"file://{root}").open()
    assert sorted(path.name for path in root.glob("step-*")) == kept
    assert (root / "notes").is_dir()
