from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest

from made_data import idx_bytes, make_images
from trainwright.contract.sections.data.images import ImageData
from trainwright.core.errors import DataMistake
from trainwright.data.base.counter_rng import integers, uniform
from trainwright.data.base.inputs import ImageInputs, as_columns
from trainwright.data.columns.class_target import Classes
from trainwright.data.dispatch import prepare, read_data
from trainwright.data.encoders.pixel_statistics import Pixels
from trainwright.data.encoders.text_tokenizer import NO_TEXTS
from trainwright.data.images.mnist import read_idx, read_labelled
from trainwright.data.images.prepare_images import prepare_images, read_images
from trainwright.data.images.raw_images import UNCHANGED

VALUES = np.arange(2 * 3 * 4).reshape(2, 3, 4)


@pytest.mark.parametrize("packed", [False, True])
def test_an_idx_file_is_read_as_it_was_written(tmp_path: Path, packed: bool) -> None:
    data = idx_bytes(VALUES)
    (tmp_path / "a").write_bytes(gzip.compress(data) if packed else data)
    read = read_idx(tmp_path / "a", "a", 3)
    np.testing.assert_array_equal(read.values, VALUES)
    assert read.version.rows == 2


BROKEN = {
    "not IDX": b"PNG" + bytes(40),
    "floats": bytes([0, 0, 13, 3]) + bytes(40),
    "other dimensions": idx_bytes(np.zeros(5)),
    "cut header": bytes([0, 0, 8, 3]) + b"\0\0",
    "claims more than there is": bytes([0, 0, 8, 3]) + struct.pack(">3I", 60, 28, 28),
    "empty images": bytes([0, 0, 8, 3]) + struct.pack(">3I", 3, 0, 28),
    "goes on": idx_bytes(VALUES) + b"x",
    "cut off": idx_bytes(VALUES)[:-1],
}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("name", BROKEN)
def test_what_is_no_idx_file_is_refused(tmp_path: Path, name: str, packed: bool) -> None:
    data = gzip.compress(BROKEN[name]) if packed else BROKEN[name]
    (tmp_path / "a").write_bytes(data)
    with pytest.raises(DataMistake) as caught:
        read_idx(tmp_path / "a", "a", 3)
    (problem,) = caught.value.problems
    assert problem.path == "data.path"
    assert problem.place.file == "a"


@pytest.mark.parametrize(
    ("packed", "says"), [(False, "does not fit into memory"), (True, "impossible sizes")]
)
def test_images_beyond_the_memory_are_refused_by_their_header(
    packed: bool, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = idx_bytes(np.zeros((9, 10, 10)))
    (tmp_path / "a").write_bytes(gzip.compress(data) if packed else data)
    assert read_idx(tmp_path / "a", "a", 3).version.rows == 9
    monkeypatch.setattr("trainwright.data.images.mnist.memory_bytes", lambda: 500)
    with pytest.raises(DataMistake, match=says):
        read_idx(tmp_path / "a", "a", 3)


def test_a_packed_file_is_unpacked_no_further_than_its_header_says(tmp_path: Path) -> None:
    """The wrong checksum at its end is not reached."""
    more = np.random.default_rng(0).bytes(2**20)
    (tmp_path / "a").write_bytes(gzip.compress(idx_bytes(VALUES) + more)[:-8] + bytes(8))
    with pytest.raises(DataMistake, match="goes on"):
        read_idx(tmp_path / "a", "a", 3)


def test_members_of_a_gzip_file_are_read_to_their_ends(tmp_path: Path) -> None:
    data, file = idx_bytes(VALUES), tmp_path / "a"
    packed = gzip.compress(data)
    for whole in (gzip.compress(data[:20]) + gzip.compress(data[20:]), packed + bytes(9)):
        file.write_bytes(whole)
        np.testing.assert_array_equal(read_idx(file, "a", 3).values, VALUES)
    for wrong in (packed + packed, packed + b"x", packed[:-8], packed[:-1]):
        file.write_bytes(wrong)
        with pytest.raises(DataMistake):
            read_idx(file, "a", 3)


def test_a_damaged_gzip_file_is_named(tmp_path: Path) -> None:
    values = np.random.default_rng(0).integers(0, 255, (9, 9, 9))
    data = bytearray(gzip.compress(idx_bytes(values), mtime=0))
    data[40] ^= 0xFF
    (tmp_path / "a").write_bytes(bytes(data))
    with pytest.raises(DataMistake):
        read_idx(tmp_path / "a", "a", 3)


def test_every_problem_of_the_folder_is_named_at_once(tmp_path: Path) -> None:
    (tmp_path / "t10k-labels-idx1-ubyte.gz").touch()
    with pytest.raises(DataMistake) as caught:
        read_images(ImageData(kind="images", path="."), tmp_path)
    assert len(caught.value.problems) == 4


def test_images_are_divided_and_standardised_by_the_training_images_alone(tmp_path: Path) -> None:
    make_images(tmp_path / "data")
    section = ImageData(kind="images", path="data", classes=("a", "b", "c"), validation=0.25)
    raw = read_data(section, tmp_path)
    assert raw.facts.target.classes == {"a": 80, "b": 80, "c": 80}
    prepared = prepare(raw, section, "classification", 3, NO_TEXTS)
    assert [len(p) for p in (prepared.train, prepared.validation, prepared.test)] == [180, 60, 60]
    assert isinstance(prepared.train.inputs, ImageInputs)
    pixels = prepared.train.inputs.copied().astype(np.float64)
    assert isinstance(prepared.features, Pixels)
    assert prepared.features.mean == pytest.approx([pixels.mean()])
    assert prepared.features.deviation == pytest.approx([pixels.std()])
    assert Pixels.from_json(prepared.features.to_json()) == prepared.features
    assert prepared.split.class_shares["validation"] == pytest.approx(dict.fromkeys("abc", 1 / 3))
    assert prepared.train.frame["label"].to_list()[:1] == ["abc"[prepared.train.target[0]]]
    assert not set(prepared.train.rows) & set(prepared.validation.rows)
    again = prepare(raw, section, "classification", 3, NO_TEXTS)
    assert again.version == prepared.version
    assert prepare(raw, section, "classification", 4, NO_TEXTS).version != prepared.version


def test_without_test_files_all_parts_are_cut_from_the_training_images(tmp_path: Path) -> None:
    folder = make_images(tmp_path / "data", train=300, test=60)
    (folder / "t10k-images-idx3-ubyte.gz").unlink()
    section = ImageData(kind="images", path="data", validation=0.1, test=0.2)
    # One of the two files of the test is still there: nothing says that it is not wanted.
    with pytest.raises(DataMistake, match="t10k-images"):
        read_images(section, tmp_path)
    (folder / "t10k-labels-idx1-ubyte").unlink()
    prepared = prepare_images(read_images(section, tmp_path), section, 0)
    assert prepared.split.rows == {"train": 210, "validation": 30, "test": 60}
    together = np.concatenate([prepared.train.rows, prepared.validation.rows, prepared.test.rows])
    assert sorted(together) == list(range(300))


def test_duplicates_of_training_images_are_counted(tmp_path: Path) -> None:
    folder = make_images(tmp_path / "data", train=60, test=60)
    for what in ("images-idx3-ubyte.gz", "labels-idx1-ubyte"):
        (folder / f"t10k-{what}").write_bytes((folder / f"train-{what}").read_bytes())
    section = ImageData(kind="images", path="data")
    raw = read_images(section, tmp_path)
    assert prepare_images(raw, section, 0).split.duplicate_rows == 54


def test_labels_without_images_or_names_are_refused(tmp_path: Path) -> None:
    folder = make_images(tmp_path / "data")
    (folder / "t10k-labels-idx1-ubyte").write_bytes(idx_bytes(np.arange(5) % 3))
    section = ImageData(kind="images", path="data", classes=("a", "b"))
    with pytest.raises(DataMistake) as caught:
        read_images(section, tmp_path)
    assert [problem.path for problem in caught.value.problems] == ["data.path", "data.classes"]


@pytest.mark.parametrize(
    "written",
    [
        {"val_path": "x"},
        {"test_path": "x"},
        {"fields": {"group": "patient"}},
        {"decoding": {"size": (8, 8)}},
        {"decoding": {"cache": "here"}},
    ],
)
def test_what_changes_nothing_of_idx_files_is_refused(
    tmp_path: Path, written: dict[str, object]
) -> None:
    make_images(tmp_path / "data")
    section = ImageData.model_validate({"kind": "images", "path": "data"} | written)
    with pytest.raises(DataMistake, match="has no effect") as caught:
        read_images(section, tmp_path)
    assert [problem.path for problem in caught.value.problems] == [f"data.{next(iter(written))}"]


def test_a_name_that_no_image_has_is_refused(tmp_path: Path) -> None:
    make_images(tmp_path / "data")
    section = ImageData(kind="images", path="data", classes=("a", "b", "c", "d"))
    with pytest.raises(DataMistake, match="no training image has") as caught:
        read_images(section, tmp_path)
    assert caught.value.problems[0].found == "3"


def test_labelled_images_are_found_by_their_names(tmp_path: Path) -> None:
    folder = make_images(tmp_path)
    (folder / "t10k-images-idx3-ubyte").write_bytes(
        gzip.decompress((folder / "t10k-images-idx3-ubyte.gz").read_bytes())
    )
    images, labels = read_labelled(folder / "t10k-images-idx3-ubyte")
    assert images.values.shape == (60, 12, 12)
    assert labels.tolist() == [row % 3 for row in range(60)]
    assert len(read_labelled(folder / "train-images-idx3-ubyte.gz")[1]) == 240
    (folder / "t10k-images-idx3-ubyte").rename(folder / "new-idx3-ubyte")
    (folder / "train-labels-idx1-ubyte").unlink()
    for name in ("train-images-idx3-ubyte.gz", "new-idx3-ubyte"):
        with pytest.raises(DataMistake, match="no file of labels"):
            read_labelled(folder / name)


def test_images_of_another_size_are_refused() -> None:
    pixels = Pixels(1, 12, 12, (0.0,), (1.0,), UNCHANGED)
    assert len(pixels.read(np.zeros((2, 12, 12), np.uint8))) == 2
    for images in (np.zeros((2, 13, 12), np.uint8), np.zeros((2, 12, 12), np.float32)):
        with pytest.raises(DataMistake, match="not like those"):
            pixels.read(images)


def test_an_image_as_columns_is_its_pixels_from_0_to_1() -> None:
    columns = as_columns(ImageInputs.of(np.full((2, 1, 2, 2), 255, np.uint8)))
    assert columns.numeric.tolist() == [[1.0] * 4] * 2


def test_noise_is_even_and_depends_on_all_of_its_key() -> None:
    rows = np.arange(100_000)
    drawn = uniform(0, "flip", 1, rows)
    assert abs(drawn.mean() - 0.5) < 0.005
    assert abs(np.corrcoef(drawn[1:], drawn[:-1])[0, 1]) < 0.01
    for other in (
        uniform(1, "flip", 1, rows),
        uniform(0, "x", 1, rows),
        uniform(0, "flip", 2, rows),
    ):
        assert abs(np.corrcoef(drawn, other)[0, 1]) < 0.01
    np.testing.assert_array_equal(uniform(0, "flip", 1, rows[500:600]), drawn[500:600])
    counts = np.bincount(integers(7, 0, "crop", 0, rows), minlength=7)
    assert len(counts) == 7
    assert (abs(counts / len(rows) - 1 / 7) < 0.005).all()


@pytest.mark.parametrize(("names", "positive"), [(("no", "yes"), "yes"), (("a", "b"), "a")])
def test_the_positive_class_of_images_is_found_by_its_name_before_its_rows(
    tmp_path: Path, names: tuple[str, str], positive: str
) -> None:
    make_images(tmp_path)
    for prefix in ("train", "t10k"):
        file = tmp_path / f"{prefix}-labels-idx1-ubyte"
        labels = read_idx(file, file.name, 1).values
        file.write_bytes(idx_bytes(np.minimum(labels, 1)))  # the second class has most images
    section = ImageData(kind="images", path=".", classes=names)
    target = prepare_images(read_images(section, tmp_path), section, seed=0).target
    assert isinstance(target, Classes)
    assert target.names[target.positive] == positive
