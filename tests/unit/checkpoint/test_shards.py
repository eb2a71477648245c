"""Several processes write one checkpoint; any number of them read it back."""

from __future__ import annotations

import json
import multiprocessing
from collections.abc import Mapping
from pathlib import Path
from unittest import mock

import pytest

torch = pytest.importorskip("torch")

from torch import Tensor  # noqa: E402

from trainwright.checkpoint.files.manifest import Manifest  # noqa: E402
from trainwright.checkpoint.files.shard_files import (  # noqa: E402
    Box,
    LocalBlock,
    TensorShards,
    list_of,
    read_shards,
    write_shards,
)
from trainwright.checkpoint.files.tensor_file import (  # noqa: E402
    allocate,
    blocks,
    describe,
    read_tensors,
)
from trainwright.checkpoint.sharded_save import (  # noqa: E402
    begin_shards,
    commit_shards,
    read_blocks_of,
)
from trainwright.checkpoint.state import Snapshot  # noqa: E402
from trainwright.checkpoint.storages.object_storage import open_objects  # noqa: E402
from trainwright.checkpoint.store import Checkpoints, Loaded, SaveOutcome  # noqa: E402
from trainwright.checkpoint.strict_json import Damaged, write_sealed  # noqa: E402
from trainwright.core.errors import NoValidCheckpoint, StorageFailed  # noqa: E402
from trainwright.doctor.verify_checkpoints import verify_checkpoints  # noqa: E402

pytestmark = pytest.mark.torch

SHAPES = {"weight": (7, 6), "bias": (5,), "scale": ()}


def whole(mark: float = 0.0) -> dict[str, Tensor]:
    return {
        name: torch.arange(torch.Size(shape).numel()).reshape(shape) + mark
        for name, shape in SHAPES.items()
    }


def rows_of(count: int, writer: int, writers: int) -> tuple[int, int]:
    """First row and number of rows of one of several processes, as even as possible."""
    starts = [count * one // writers for one in range(writers + 1)]
    return starts[writer], starts[writer + 1] - starts[writer]


def boxes(writer: int, writers: int) -> dict[str, Box]:
    found: dict[str, Box] = {}
    for name, shape in SHAPES.items():
        if not shape:
            continue
        start, count = rows_of(shape[0], writer, writers)
        found[name] = Box((start, *(0,) * (len(shape) - 1)), (count, *shape[1:]))
    return found


def shards(tensors: Mapping[str, Tensor], writer: int, writers: int) -> dict[str, LocalBlock]:
    found = {
        name: LocalBlock(tensors[name][box.slices()], box.offset, tuple(tensors[name].shape))
        for name, box in boxes(writer, writers).items()
    }
    if writer == 0:
        found["scale"] = LocalBlock(tensors["scale"], (), ())
    return found


def write(place: Path, writer: int, writers: int, mark: float) -> None:
    write_shards(place, writer, writers, {"model": shards(whole(mark), writer, writers)})


def parts(step: int) -> dict[str, Snapshot]:
    own = {"state": torch.arange(4)}
    return {"model": Snapshot(values={"tied": {}}), "random": Snapshot(tensors=own, values=step)}


def save(store: Checkpoints, writers: int, step: int) -> SaveOutcome:
    place = begin_shards(store)
    for writer in range(writers):
        write(place, writer, writers, float(step))
    return commit_shards(store, place, writers, step, parts(step), {"ranks": writers})


def assert_whole(store: Checkpoints, step: int) -> Loaded:
    loaded = store.newest_valid()
    assert isinstance(loaded, Loaded)
    assert loaded.step == step
    model = loaded.parts["model"].tensors
    expected = whole(float(step))
    assert model.keys() == expected.keys()
    assert all(torch.equal(model[name], expected[name]) for name in expected)
    assert loaded.parts["random"].values == step
    assert torch.equal(loaded.parts["random"].tensors["state"], torch.arange(4))
    return loaded


@pytest.mark.parametrize("writers", [2, 4])
def test_processes_write_one_checkpoint(writers: int, tmp_path: Path) -> None:
    store = Checkpoints(tmp_path, 1)
    place = begin_shards(store)
    context = multiprocessing.get_context("fork")
    processes = [
        context.Process(target=write, args=(place, one, writers, 3.0)) for one in range(writers)
    ]
    for one in processes:
        one.start()
    for one in processes:
        one.join()
    assert [one.exitcode for one in processes] == [0] * writers
    assert not list(tmp_path.glob("step-*"))
    commit_shards(store, place, writers, 3, parts(3), {})
    assert_whole(Checkpoints(tmp_path, 1), 3)
    assert [one.status for one in verify_checkpoints(tmp_path)] == ["whole"]
    assert not list(tmp_path.glob(".tmp-*"))


@pytest.mark.parametrize("writers", [1, 2, 4, 8])
@pytest.mark.parametrize("readers", [1, 2, 3, 8])
def test_it_is_read_onto_another_number_of_processes(
    writers: int, readers: int, tmp_path: Path
) -> None:
    store = Checkpoints(tmp_path, 1)
    save(store, writers, 5)
    for reader in range(readers):
        wanted = boxes(reader, readers)
        found = read_blocks_of(store, store.names()[0], "model", wanted)
        for name, box in wanted.items():
            assert torch.equal(found[name], whole(5.0)[name][box.slices()])


def test_the_size_of_a_save_counts_its_shards(tmp_path: Path) -> None:
    store = Checkpoints(tmp_path, 1)
    saved = save(store, 2, 5)
    files = [path for path in (tmp_path / saved.name).iterdir() if path.name != "manifest.json"]
    written = sum(path.stat().st_size for path in files)
    shards = sum(path.stat().st_size for path in files if "-of-" in path.name)
    assert shards < saved.size_bytes <= written


def test_a_checkpoint_of_one_process_is_read_onto_several(tmp_path: Path) -> None:
    store = Checkpoints(tmp_path, 1)
    store.save(1, {"model": Snapshot(tensors=whole(1.0))}, {})
    for reader in range(3):
        wanted = boxes(reader, 3)
        found = read_blocks_of(store, store.names()[0], "model", wanted)
        assert all(torch.equal(found[n], whole(1.0)[n][b.slices()]) for n, b in wanted.items())


def save_frozen(folder: Path) -> Checkpoints:
    """A store whose checkpoint holds a bias, and a frozen weight [7, 6] in a base."""
    store, tensors = Checkpoints(folder, 1), whole(2.0)
    with store.taking():
        shot = Snapshot(tensors=tensors, frozen={"weight": tensors["weight"]})
    store.save(1, {"model": shot}, {})
    assert list(folder.glob("base-*"))
    return store


def test_frozen_tensors_are_read_onto_several_processes(tmp_path: Path) -> None:
    store = save_frozen(tmp_path)
    for reader in range(3):
        wanted = boxes(reader, 3)
        found = read_blocks_of(store, store.names()[0], "model", wanted)
        assert found.keys() == wanted.keys()
        assert all(torch.equal(found[n], whole(2.0)[n][b.slices()]) for n, b in wanted.items())
    next(tmp_path.glob("base-*")).unlink()
    name = store.names()[0]
    read_blocks_of(store, name, "model", {"bias": Box((1,), (2,))})
    with pytest.raises(NoValidCheckpoint, match=r"step-0000000001 needs .* base-"):
        read_blocks_of(store, name, "model", {"weight": Box((0, 0), (1, 1))})


@pytest.mark.parametrize("how", ["whole", "shards", "frozen"])
@pytest.mark.parametrize(
    "box",
    [Box((5, 0), (3, 6)), Box((-1, 0), (1, 6)), Box((8, 0), (1, 6)), Box((0,), (7,)), Box((), ())],
)
def test_a_block_beyond_its_tensor_is_refused(how: str, box: Box, tmp_path: Path) -> None:
    store = save_frozen(tmp_path) if how == "frozen" else Checkpoints(tmp_path, 1)
    if how == "whole":
        store.save(1, {"model": Snapshot(tensors=whole())}, {})
    elif how == "shards":
        save(store, 2, 1)
    with pytest.raises(Damaged, match=r"weight: .* reaches beyond its shape"):
        read_blocks_of(store, store.names()[0], "model", {"weight": box})


def test_only_files_with_wanted_rows_are_read(tmp_path: Path) -> None:
    store = Checkpoints(tmp_path, 1)
    save(store, 4, 5)
    name = store.names()[0]
    (tmp_path / name / "model.00003-of-00004.safetensors").unlink()
    first = read_blocks_of(store, name, "model", {"weight": Box((0, 2), (3, 4))})
    assert torch.equal(first["weight"], whole(5.0)["weight"][:3, 2:])
    with pytest.raises(Damaged, match="00003-of-00004"):
        read_blocks_of(store, name, "model", {"weight": Box((4, 0), (3, 6))})


@pytest.mark.parametrize("writers", [2, 4])
def test_a_missing_shard_is_no_checkpoint(writers: int, tmp_path: Path) -> None:
    store = Checkpoints(tmp_path, 1)
    save(store, writers, 1)
    for absent in range(writers):
        place = begin_shards(store)
        for writer in range(writers):
            if writer != absent:
                write(place, writer, writers, 2.0)
        with pytest.raises(StorageFailed, match=f"of {writers} writers {absent} wrote no shards"):
            commit_shards(store, place, writers, 2, parts(2), {})
        assert not place.exists()
        assert_whole(Checkpoints(tmp_path, 1), 1)
    save(store, writers, 2)
    assert_whole(Checkpoints(tmp_path, 1), 2)


def test_a_process_that_dies_before_the_commit_leaves_the_older_checkpoint(tmp_path: Path) -> None:
    store = Checkpoints(tmp_path, 1)
    save(store, 2, 1)
    place = begin_shards(store)
    write(place, 0, 2, 2.0)
    write(place, 1, 2, 2.0)
    assert_whole(Checkpoints(tmp_path, 1), 1)
    assert not place.exists()


@pytest.mark.parametrize("what", ["cut", "list", "of another save", "overlap", "gap", "dtype"])
def test_shards_that_do_not_fit_are_no_checkpoint(what: str, tmp_path: Path) -> None:
    store = Checkpoints(tmp_path, 1)
    save(store, 2, 1)
    place, other = begin_shards(store), begin_shards(store)
    write(place, 0, 2, 2.0)
    write(other, 1, 2, 2.0)
    mine = shards(whole(2.0), 1, 2)
    weight = mine["weight"]
    if what == "overlap":
        mine["weight"] = LocalBlock(weight.tensor, (2, 0), weight.shape)
    elif what == "gap":
        mine["weight"] = LocalBlock(weight.tensor[1:], (4, 0), weight.shape)
    elif what == "dtype":
        mine["weight"] = LocalBlock(weight.tensor.double(), weight.offset, weight.shape)
    write_shards(place, 1, 2, {"model": mine})
    path = place / "model.00001-of-00002.safetensors"
    if what == "cut":
        path.write_bytes(path.read_bytes()[:-1])
    elif what == "list":
        (place / list_of(1, 2)).write_bytes(b"{}")
    elif what == "of another save":
        (other / list_of(1, 2)).replace(place / list_of(1, 2))
    with pytest.raises(StorageFailed):
        commit_shards(store, place, 2, 2, parts(2), {})
    assert_whole(Checkpoints(tmp_path, 1), 1)


@pytest.mark.parametrize("is_frozen", [False, True])
def test_a_tensor_that_is_in_shards_and_whole_is_no_checkpoint(
    is_frozen: bool, tmp_path: Path
) -> None:
    store = Checkpoints(tmp_path, 1)
    bias = {"bias": torch.zeros(5)}
    with store.taking():
        model = Snapshot(tensors=bias, frozen=bias if is_frozen else {})
    place = begin_shards(store)
    write(place, 0, 1, 2.0)
    with pytest.raises(StorageFailed, match="saving shards of model: bias is given whole as well"):
        commit_shards(store, place, 1, 2, {**parts(2), "model": model}, {})
    assert not place.exists()
    save(store, 2, 2)
    assert_whole(Checkpoints(tmp_path, 1), 2)


def test_a_damaged_shard_is_never_loaded(tmp_path: Path) -> None:
    store = Checkpoints(tmp_path, 2)
    save(store, 4, 1)
    save(store, 4, 2)
    path = tmp_path / store.names()[0] / "model.00002-of-00004.safetensors"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    loaded = assert_whole(Checkpoints(tmp_path, 2), 1)
    assert "model.00002-of-00004.safetensors" in loaded.rejected[0]


def test_shards_are_copied_elsewhere(tmp_path: Path) -> None:
    store = Checkpoints(tmp_path / "here", 1)
    save(store, 2, 4)
    far = store.elsewhere(open_objects(f"file://{tmp_path}/away"))
    far.copy_from(store.storage, store.names()[0])
    assert_whole(Checkpoints(open_objects(f"file://{tmp_path}/away"), 1), 4)


@pytest.mark.parametrize(
    "blocks",
    [
        [],
        [("a", [0], [4]), ("b", [4], [2])],
        [("a", [0], [4]), ("b", [3], [2])],
        [("a", [0], [4]), ("b", [4, 0], [1, 1])],
        [("a", [0], [2**62])],
    ],
)
def test_a_manifest_whose_blocks_do_not_cover_a_tensor_is_damaged(
    blocks: list[tuple[str, list[int], list[int]]],
) -> None:
    value = {
        "dtype": "F32",
        "shape": [5],
        "blocks": [{"file": f, "offset": o, "shape": s} for f, o, s in blocks],
    }
    with pytest.raises(Damaged):
        TensorShards.from_json(value)


@pytest.mark.parametrize("shape", [[2**62], [2**63], [2**70, 0], [0, 2**62, 2**62]])
def test_a_shape_that_no_memory_holds_is_damaged(shape: list[int]) -> None:
    block = {"file": "a", "offset": [0] * len(shape), "shape": shape}
    one = TensorShards.from_json({"dtype": "F32", "shape": shape, "blocks": [block]})
    with pytest.raises(Damaged, match="weight: no memory holds"):
        read_shards(lambda _: b"", {"weight": one})


def test_a_tensor_whose_elements_torch_cannot_count_is_damaged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(Damaged, match="weight: no memory holds"):
        allocate("weight", (0, 2**47, 2**47), torch.float32)
    empty = {"weight": torch.empty(0, 3)}
    data = b"".join(map(bytes, blocks(empty)))
    assert read_tensors(data, describe(empty))["weight"].shape == (0, 3)
    monkeypatch.setattr(torch, "empty", mock.Mock(side_effect=RuntimeError("no memory")))
    with pytest.raises(Damaged, match="weight: no memory holds"):
        read_tensors(data, describe(empty))


@pytest.mark.parametrize(
    "content",
    [
        {"parts": []},
        {"parts": {"model": {"weight": []}}},
        {"files": [{"name": "../a", "size_bytes": 0, "sha256": ""}]},
        {"files": {"a": 1}},
    ],
)
def test_a_list_of_shards_that_is_none_is_no_checkpoint(
    content: dict[str, object], tmp_path: Path
) -> None:
    store = Checkpoints(tmp_path, 1)
    place = begin_shards(store)
    written = {"place": place.name, "files": [], "parts": {}, **content}
    (place / list_of(0, 1)).write_bytes(write_sealed(written, 1))
    with pytest.raises(StorageFailed, match=r"shards\.00000-of-00001\.json"):
        commit_shards(store, place, 1, 1, parts(1), {})
    assert not place.exists()


@pytest.mark.parametrize("frozen", [{"model": {"weight": []}}, {"model": [1]}, [1]])
def test_a_manifest_without_a_base_for_a_frozen_tensor_is_damaged(frozen: object) -> None:
    content = Manifest("0" * 32, 1, 1, "", 0.5, {"model": {}}, {}, ())
    written = json.loads(content.to_bytes())["content"] | {"frozen": frozen}
    with pytest.raises(Damaged, match="not the manifest of a checkpoint"):
        Manifest.from_bytes(write_sealed(written | {"bases": [], "shards": {}}, 2))


def test_one_process_writes_the_format_that_it_wrote(tmp_path: Path) -> None:
    store = Checkpoints(tmp_path, 1)
    store.save(1, parts(1), {})
    content = (tmp_path / store.names()[0] / "manifest.json").read_text()
    assert '"format": 1' in content
    assert "shards" not in content
