"""Every kind of source gives the same images, once in the cache and then from it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from command import MOST_MEGABYTES
from deadlines import within
from made_pictures import (
    CLASSES,
    encoded,
    picture,
    samples,
    tar_bytes,
    write_folder,
    write_parquet_bytes,
    write_shards,
    write_table,
)
from trainwright.contract.sections.data.images import ImageData
from trainwright.core.errors import DataMistake
from trainwright.data.base.inputs import ImageInputs
from trainwright.data.images.decode import ImageFault
from trainwright.data.images.prepare_images import prepare_images, read_images
from trainwright.data.images.raw_images import RawImages
from trainwright.data.images.read_image_file import read_inside


def section(path: str, **values: object) -> ImageData:
    """The section as a contract's YAML gives it."""
    decoding = {"cache": "cache"} | dict(values.pop("decoding", {}))  # type: ignore[call-overload]
    written = {"kind": "images", "path": path, "decoding": decoding} | values
    return ImageData.model_validate_json(json.dumps(written))


def read(folder: Path, path: str, **values: object) -> RawImages:
    return read_images(section(path, **values), folder)


SOURCES = {
    "folder": ({}, lambda at: write_folder(at / "data")),
    "csv": ({}, lambda at: write_table(at / "data")),
    "parquet of paths": ({}, lambda at: write_table(at / "data", kind=".parquet")),
    "parquet of bytes": ({}, lambda at: write_parquet_bytes(at / "data.parquet")),
    "parquet of structs": ({}, lambda at: write_parquet_bytes(at / "d.parquet", struct_of=True)),
    "tar": ({}, lambda at: write_shards(at / "data")),
    "tar.gz": ({}, lambda at: write_shards(at / "data", packed=True)),
    "tar with json": ({}, lambda at: write_shards(at / "data", told="json")),
}


@pytest.mark.parametrize("name", SOURCES)
def test_every_source_gives_every_image_with_its_label(tmp_path: Path, name: str) -> None:
    more, write = SOURCES[name]
    at = write(tmp_path).relative_to(tmp_path).as_posix()
    raw = read(tmp_path, at, **more)
    expected = {picture(row).tobytes(): row % 3 for row in range(60)}
    pixels = raw.images["train"].copied().transpose(0, 2, 3, 1)
    found = {
        np.ascontiguousarray(one).tobytes(): int(code)
        for one, code in zip(pixels, raw.labels["train"], strict=True)
    }
    assert found == expected
    assert raw.names in (CLASSES, ("0", "1", "2"))
    assert raw.facts.rows == 60
    again = read(tmp_path, at, **more)
    assert again.facts == raw.facts
    np.testing.assert_array_equal(again.images["train"].copied(), raw.images["train"].copied())
    assert len(list((tmp_path / "cache" / "images").iterdir())) == 1


def test_the_usual_cache_is_that_of_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRAINWRIGHT_CACHE", str(tmp_path / "kept"))
    write_folder(tmp_path / "project" / "data")
    read_images(ImageData(kind="images", path="data"), tmp_path / "project")
    assert [child.name for child in (tmp_path / "project").iterdir()] == ["data"]
    assert list((tmp_path / "kept" / "images").iterdir())


def test_the_rows_of_a_table_are_kept_where_the_contract_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRAINWRIGHT_CACHE", str(tmp_path / "user"))
    write_table(tmp_path / "data")
    read(tmp_path, "data/table.csv", decoding={"cache": "here"})
    assert list((tmp_path / "here" / "tables").iterdir())
    read(tmp_path, "data/table.csv", decoding={"cache": "off"})
    assert not (tmp_path / "user").exists()


def test_a_damaged_byte_of_a_parquet_file_is_a_mistake_or_another_image(tmp_path: Path) -> None:
    file = write_parquet_bytes(tmp_path / "data.parquet", 9)
    whole = file.read_bytes()
    refused = 0
    for place in range(4, len(whole), 97):
        damaged = bytearray(whole)
        damaged[place : place + 9] = bytes(9)
        file.write_bytes(bytes(damaged))
        try:
            read(tmp_path, "data.parquet", decoding={"cache": "off", "corrupt": "drop"})
        except DataMistake:
            refused += 1
    assert refused > 5


def test_a_name_that_is_not_utf_8_is_kept_and_told(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "data", 9)
    strange = os.fsdecode(b"caf\xe9.png")
    (folder / "cat" / "0001.png").rename(folder / "cat" / strange)
    (folder / "dog").rename(folder / os.fsdecode(b"ch\xeen"))
    raw = read(tmp_path, "data")
    assert "cat/caf\\udce9.png" in raw.records["train"]["name"].to_list()
    assert raw.names == ("bird", "cat", "ch\\udceen")
    (folder / "cat" / strange).write_bytes(b"")
    with pytest.raises(DataMistake, match=r"data/cat/caf\\udce9\.png: the file is empty"):
        read(tmp_path, "data")
    dropped = read(tmp_path, "data", decoding={"corrupt": "drop"})
    assert dropped.left_out["train"].names == ("cat/caf\\udce9.png",)
    (note,) = dropped.notes
    assert note.startswith("1 unreadable image of data skipped")


def test_a_lone_surrogate_in_the_json_of_a_sample_is_kept(tmp_path: Path) -> None:
    members = []
    for row, (name, label, data) in enumerate(samples(6)):
        told = json.dumps({"label": label if row else "\ud800"}).encode()
        members += [(f"{name}.png", data), (f"{name}.json", told)]
    (tmp_path / "a.tar").write_bytes(tar_bytes(members))
    assert read(tmp_path, "a.tar").names[0] == "\\ud800"


def test_classes_name_numbers_and_order_labels(tmp_path: Path) -> None:
    write_shards(tmp_path / "shards")
    write_folder(tmp_path / "folder")
    named = read(tmp_path, "shards", classes=CLASSES)
    assert named.names == CLASSES
    assert named.facts.target.classes == dict.fromkeys(CLASSES, 20)
    turned = read(tmp_path, "folder", classes=CLASSES[::-1])
    assert turned.names == CLASSES[::-1]
    assert int(turned.labels["train"][0]) == 2
    with pytest.raises(DataMistake, match="labels that are no class"):
        read(tmp_path, "folder", classes=("bird", "cat"))
    with pytest.raises(DataMistake, match="no training image has"):
        read(tmp_path, "folder", classes=(*CLASSES, "fish"))


def test_parts_stand_in_folders_of_their_own(tmp_path: Path) -> None:
    for part, count in (("train", 30), ("val", 9), ("test", 12)):
        write_folder(tmp_path / "data" / part, count)
    raw = read(tmp_path, "data")
    prepared = prepare_images(raw, section("data"), 0)
    assert [len(p) for p in (prepared.train, prepared.validation, prepared.test)] == [30, 9, 12]
    assert prepared.split.kind == "given"
    assert prepared.split.duplicate_rows == 9 + 12


def test_two_folders_for_one_part_are_refused_unless_one_is_named(tmp_path: Path) -> None:
    for part, count in (("train", 30), ("val", 9), ("valid", 12)):
        write_folder(tmp_path / "data" / part, count)
    with pytest.raises(DataMistake, match="several folders could be the validation part") as caught:
        read(tmp_path, "data")
    assert "val_path: data/val" in str(caught.value)
    assert read(tmp_path, "data", val_path="data/valid").facts.part_rows["validation"] == 12
    write_folder(tmp_path / "data" / "training", 6)
    with pytest.raises(DataMistake, match="several folders could be the train part"):
        read(tmp_path, "data")


def test_without_parts_the_contract_divides_within_each_class(tmp_path: Path) -> None:
    write_folder(tmp_path / "data", 120)
    chosen = section("data", validation=0.1, test=0.2)
    prepared = prepare_images(read_images(chosen, tmp_path), chosen, 0)
    assert [len(p) for p in (prepared.train, prepared.validation, prepared.test)] == [84, 12, 24]
    assert prepared.split.class_shares["test"] == pytest.approx(dict.fromkeys(CLASSES, 1 / 3))
    rows = [set(p.rows.tolist()) for p in (prepared.train, prepared.validation, prepared.test)]
    assert not rows[0] & rows[1]
    assert not rows[0] & rows[2]
    assert len(set.union(*rows)) == 120


@pytest.mark.parametrize("kind", ["table", "shards"])
def test_a_group_stands_on_one_side(tmp_path: Path, kind: str) -> None:
    if kind == "table":
        write_table(tmp_path / "data", 120)
        path = "data/table.csv"
    else:
        write_shards(tmp_path / "data", 120, told="json")
        path = "data"
    chosen = section(path, fields={"group": "patient"})
    prepared = prepare_images(read_images(chosen, tmp_path), chosen, 0)
    groups = [
        set(part.frame["group"].to_list())
        for part in (prepared.train, prepared.validation, prepared.test)
    ]
    assert all(groups)
    assert not groups[0] & groups[1]
    assert not groups[0] & groups[2]
    assert not groups[1] & groups[2]
    assert len(np.unique(prepared.test.units)) == len(groups[2])


def test_images_without_a_group_are_groups_of_their_own(tmp_path: Path) -> None:
    write_table(tmp_path / "data", 60)
    rows = pl.read_csv(tmp_path / "data/table.csv")
    alone = rows.with_columns(patient=pl.when(pl.int_range(pl.len()) < 9).then("patient"))
    alone.write_csv(tmp_path / "data/table.csv")
    chosen = section("data/table.csv", fields={"group": "patient"})
    prepared = prepare_images(read_images(chosen, tmp_path), chosen, 0)
    assert len(np.unique(prepared.test.units)) > 4


def test_a_part_of_a_single_group_keeps_it(tmp_path: Path) -> None:
    """As where one hospital is the test."""
    for part, rows in (("train", 40), ("test", 12)):
        at = write_table(tmp_path / part, rows, ".parquet")
        group = pl.lit("the test's") if part == "test" else pl.col("patient")
        pl.read_parquet(at).with_columns(patient=group).write_parquet(at)
    parts = {"path": "train/table.parquet", "test_path": "test/table.parquet"}
    chosen = section(**parts, fields={"group": "patient"})
    prepared = prepare_images(read_images(chosen, tmp_path), chosen, 0)
    assert prepared.test.frame["group"].to_list() == ["the test's"] * 12
    assert len(np.unique(prepared.test.units)) == 1
    assert prepared.split.groups["test"] == 1


@pytest.mark.parametrize("own", [("test",), ("val", "test")])
def test_a_group_that_crosses_parts_that_stand_apart_is_refused(
    tmp_path: Path, own: tuple[str, ...]
) -> None:
    paths = {}
    for part in ("train", *own):
        at = write_table(tmp_path / part, 40, ".parquet")
        named = pl.lit(f"{part} ") + pl.col("patient")
        crossing = pl.when(pl.int_range(pl.len()) < 4).then(pl.lit("both")).otherwise(named)
        frame = pl.read_parquet(at)
        frame.with_columns(patient=named if part == "val" else crossing).write_parquet(at)
        key = "path" if part == "train" else f"{part}_path"
        paths[key] = f"{part}/table.parquet"
    chosen = section(**paths, fields={"group": "patient"})
    with pytest.raises(DataMistake, match="1 group stands in more than one") as caught:
        prepare_images(read_images(chosen, tmp_path), chosen, 0)
    (problem,) = caught.value.problems
    assert problem.path == "data.fields.group"
    assert "patient" in problem.found


def test_a_file_of_its_own_for_each_part(tmp_path: Path) -> None:
    for part, count in (("train", 30), ("val", 9), ("test", 12)):
        write_parquet_bytes(tmp_path / f"{part}.parquet", count)
    raw = read(tmp_path, "train.parquet", val_path="val.parquet", test_path="test.parquet")
    assert raw.facts.part_rows == {"train": 30, "validation": 9, "test": 12}
    with pytest.raises(DataMistake) as caught:
        read(tmp_path, "none.parquet", val_path="no.tar", test_path="nowhere")
    assert len({problem.path for problem in caught.value.problems}) >= 1


def test_another_content_is_another_entry_and_another_version(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "data")
    first = read(tmp_path, "data")
    (folder / "cat" / "0001.png").write_bytes(encoded(picture(500)))
    second = read(tmp_path, "data")
    assert first.facts.files[0].sha256 != second.facts.files[0].sha256
    assert not np.array_equal(first.images["train"].copied(), second.images["train"].copied())
    (folder / "cat" / "0001.png").rename(folder / "dog" / "0001.png")
    third = read(tmp_path, "data")
    assert third.facts.files[0].sha256 != second.facts.files[0].sha256
    assert len(list((tmp_path / "cache" / "images").iterdir())) == 3


def test_a_damaged_entry_is_made_again(tmp_path: Path) -> None:
    write_folder(tmp_path / "data")
    before = read(tmp_path, "data").images["train"].copied()
    (pixels,) = (tmp_path / "cache" / "images").glob("*/pixels.u8")
    data = bytearray(pixels.read_bytes())
    data[100] ^= 0xFF
    pixels.write_bytes(bytes(data))
    np.testing.assert_array_equal(read(tmp_path, "data").images["train"].copied(), before)


READ = """
import sys
from dataclasses import replace
from pathlib import Path
from trainwright.contract.sections.data.images import ImageData
from trainwright.data.images.prepare_images import read_images
section = ImageData(kind="images", path="data", decoding={"cache": "cache"})
print(int(read_images(section, Path(sys.argv[1])).images["train"].pixels.sum()))
"""


@pytest.mark.extended
def test_processes_that_start_together_share_one_entry(tmp_path: Path) -> None:
    write_folder(tmp_path / "data")
    started = [
        subprocess.Popen(
            [sys.executable, "-c", READ, str(tmp_path)], stdout=subprocess.PIPE, text=True
        )
        for _ in range(3)
    ]
    sums = {process.communicate(timeout=within(60))[0].strip() for process in started}
    assert sums == {str(int(read(tmp_path, "data").images["train"].pixels.sum()))}
    (entry,) = (tmp_path / "cache" / "images").iterdir()
    assert isinstance(read(tmp_path, "data").images["train"].pixels, np.memmap)
    assert not entry.name.startswith(".tmp")


def test_images_are_brought_to_one_size_or_must_be_of_one(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "data")
    (folder / "cat" / "large.png").write_bytes(encoded(picture(1, size=30)))
    with pytest.raises(DataMistake, match="another size") as caught:
        read(tmp_path, "data")
    (problem,) = caught.value.problems
    assert problem.place.file == "data/cat/large.png"
    raw = read(tmp_path, "data", decoding={"size": [8, 10], "channels": "grey"})
    assert raw.images["train"].size == (1, 8, 10)
    records = raw.records["train"]
    assert records.filter(pl.col("name") == "cat/large.png")["height"].to_list() == [30]


def test_names_of_samples_are_kept(tmp_path: Path) -> None:
    write_folder(tmp_path / "data", 6)
    names = read(tmp_path, "data").records["train"]["name"].to_list()
    assert sorted(names) == sorted(f"{label}/{name}.png" for name, label, _ in samples(6))


@pytest.mark.parametrize("seed", range(3))
def test_mean_and_deviation_know_nothing_of_other_rows(tmp_path: Path, seed: int) -> None:
    """Poisoned validation and test images change nothing that is fitted."""
    write_folder(tmp_path / "data", 90)
    chosen = section("data", validation=0.2, test=0.2)
    raw = read_images(chosen, tmp_path)
    clean = prepare_images(raw, chosen, seed)
    pixels = raw.images["train"].copied()
    for part in (clean.validation, clean.test):
        pixels[part.rows] = 255
    poisoned = replace(raw, images={"train": ImageInputs.of(pixels)})
    again = prepare_images(poisoned, chosen, seed)
    assert again.features == clean.features
    pixels[clean.train.rows[0]] = 255
    assert prepare_images(poisoned, chosen, seed).features != clean.features


FLAT = f"""
import sys
from pathlib import Path
from trainwright.contract.sections.data.images import Decoding
from trainwright.data.sources.cache import Cache
from trainwright.data.encoders.pixel_statistics import Rule
from trainwright.data.images.decoded_cache import keep_images
from trainwright.data.images.raw_images import Record
sys.path.insert(0, sys.argv[2])
from made_pictures import encoded, picture

FILE = encoded(picture(0, 96))

class Many:
    written = "many"
    def records(self):
        for row in range(int(sys.argv[3])):
            yield Record(str(row), "a" if row % 2 else "b", "", FILE)

rule = Rule.of(Decoding(size=(96, 96)))
keep_images(Many(), rule, "fail", Cache(Path(sys.argv[1])))
{MOST_MEGABYTES}
"""


@pytest.mark.extended
def test_memory_stays_flat_while_images_are_decoded(tmp_path: Path) -> None:
    """4,000 images are 110 MB of pixels; 200 are 5 MB."""
    tests = str(Path(__file__).resolve().parents[3])
    most = [
        int(
            subprocess.run(
                [sys.executable, "-c", FLAT, str(tmp_path / count), tests, count],
                capture_output=True,
                text=True,
                check=True,
                timeout=within(100),
            ).stdout
        )
        for count in ("200", "4000")
    ]
    assert most[1] - most[0] < 40, most


@pytest.mark.parametrize("name", ["folder", "pipe", "."])
def test_what_is_no_file_is_a_fault_of_its_image(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    fault = read_inside(tmp_path / name, tmp_path.resolve())
    assert isinstance(fault, ImageFault)
    assert fault.message == "this is no file"
    assert not fault.droppable
