"""Images at URLs: each kind of source is, image for image, what it is on this machine."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import polars as pl
import pytest

import object_store
from command import command, inside, tree
from made_pictures import (
    encoded,
    picture,
    write_folder,
    write_parquet_bytes,
    write_shards,
    write_table,
)
from trainwright.contract.sections.data.images import ImageData
from trainwright.core.errors import DataMistake
from trainwright.data.images.prepare_images import read_images
from trainwright.data.images.raw_images import RawImages
from trainwright.data.sources.cache import Cache


@pytest.fixture(scope="module")
def server() -> Iterator[None]:
    with object_store.bucket("pets"):
        yield


def put(folder: Path, prefix: str) -> None:
    """Copy a folder into the bucket."""
    import boto3

    store = boto3.client("s3")
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            key = f"{prefix}/{file.relative_to(folder).as_posix()}"
            store.put_object(Bucket="pets", Key=key, Body=file.read_bytes())


def read(folder: Path, path: str, **values: object) -> RawImages:
    written = {"kind": "images", "path": path, "decoding": {"cache": "cache"}} | values
    return read_images(ImageData.model_validate_json(json.dumps(written)), folder)


def seen(raw: RawImages) -> dict[bytes, int]:
    """The label of each image."""
    pixels = raw.images["train"].copied()
    return {one.tobytes(): int(code) for one, code in zip(pixels, raw.labels["train"], strict=True)}


SOURCES: dict[str, tuple[str, dict[str, object], Callable[[Path], object]]] = {
    "folder": ("", {}, lambda at: write_folder(at, 9)),
    "shards": ("", {}, lambda at: write_shards(at, 9)),
    "pattern": ("/part-*.tar.gz", {}, lambda at: write_shards(at, 9, packed=True)),
    "csv of paths": ("/table.csv", {}, lambda at: write_table(at, 9)),
    "parquet of paths": ("/table.parquet", {}, lambda at: write_table(at, 9, ".parquet")),
    "parquet of bytes": ("/a.parquet", {}, lambda at: write_parquet_bytes(at / "a.parquet", 9)),
}


@pytest.mark.extended
@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.usefixtures("server")
def test_every_source_at_a_url_is_what_it_is_here(tmp_path: Path, name: str) -> None:
    below, more, write = SOURCES[name]
    (tmp_path / "here").mkdir()
    write(tmp_path / "here")
    prefix = name.replace(" ", "-")
    put(tmp_path / "here", prefix)
    url = f"s3://pets/{prefix}{below}"
    there = read(tmp_path, url, **more)
    here = read(tmp_path, f"here{below}", **more)
    assert seen(there) == seen(here)
    assert len(seen(there)) == 9
    assert there.names == here.names
    assert there.facts.files[0].path == url
    kept = Cache(tmp_path / "cache").entries()
    assert read(tmp_path, url, **more).facts == there.facts
    assert Cache(tmp_path / "cache").entries() == kept


@pytest.mark.extended
@pytest.mark.usefixtures("server")
def test_parts_and_paths_may_stand_at_urls_of_their_own(tmp_path: Path) -> None:
    for part, count in (("train", 9), ("val", 6)):
        write_folder(tmp_path / "here" / part, count)
    write_parquet_bytes(tmp_path / "here" / "test.parquet", 3)
    table = write_table(tmp_path / "table", 6)
    put(tmp_path / "here", "parts")
    put(tmp_path / "table", "apart")
    raw = read(tmp_path, "s3://pets/parts", test_path="s3://pets/parts/test.parquet")
    assert raw.facts.part_rows == {"train": 9, "validation": 6, "test": 3}
    # A table of this machine whose images are elsewhere.
    (tmp_path / "table" / "files").rename(tmp_path / "gone")
    away = read(tmp_path, "table/table.csv", fields={"root": "s3://pets/apart"})
    assert away.facts.rows == pl.read_csv(table).height


@pytest.mark.extended
@pytest.mark.usefixtures("server")
def test_another_content_at_the_same_url_is_other_data(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "here", 6)
    put(folder, "changed")
    first = read(tmp_path, "s3://pets/changed")
    (folder / "cat" / "0001.png").write_bytes(encoded(picture(500)))
    put(folder, "changed")
    second = read(tmp_path, "s3://pets/changed")
    unkept = read(tmp_path, "s3://pets/changed", decoding={"cache": "off"})
    assert unkept.facts == second.facts
    assert first.facts.files[0].sha256 != second.facts.files[0].sha256
    assert seen(first) != seen(second)


@pytest.mark.parametrize("name", ["../parts/train/cat/0001.png", "/other.png", "files/./a.png"])
@pytest.mark.usefixtures("server")
def test_a_path_may_not_lead_out_of_its_place(tmp_path: Path, name: str) -> None:
    file = write_table(tmp_path / "here", 9)
    frame = pl.read_csv(file)
    first = pl.int_range(pl.len()) == 3
    frame.with_columns(image=pl.when(first).then(pl.lit(name)).otherwise("image")).write_csv(file)
    put(tmp_path / "here", "outside")
    with pytest.raises(DataMistake, match="leads out of its folder") as caught:
        read(tmp_path, "s3://pets/outside/table.csv", decoding={"corrupt": "drop"})
    assert str(caught.value.problems[0].place) == "s3://pets/outside/table.csv:5"


@pytest.mark.extended
@pytest.mark.usefixtures("server")
def test_what_is_missing_there_is_told(tmp_path: Path) -> None:
    file = write_table(tmp_path / "here", 9)
    (tmp_path / "here" / "files" / "0004.png").unlink()
    put(file.parent, "missing")
    with pytest.raises(DataMistake, match="there is no such file") as caught:
        read(tmp_path, "s3://pets/missing/table.csv")
    assert str(caught.value.problems[0].place) == "s3://pets/missing/table.csv:6"
    dropping = {"cache": "cache", "corrupt": "drop"}
    dropped = read(tmp_path, "s3://pets/missing/table.csv", decoding=dropping)
    assert dropped.left_out["train"].names == ("files/0004.png",)
    for url, said in (
        ("s3://pets/nowhere", "no folders of classes"),
        ("s3://nobody-has-this/x", "file|reached"),
        ("s3://pets/missing/x-*.tar", "no file fits the pattern"),
        ("s3://pets/missing/x.tar", "no such file"),
        ("nowhere://pets/x", "no place that is known"),
    ):
        with pytest.raises(DataMistake, match=said):
            read(tmp_path, url)


CONTRACT = """
data: {kind: images, path: 's3://pets/run/part-*.tar', decoding: {cache: cache}}
model: {kind: linear}
metric: {target: 0.5, resamples: 100}
"""


@pytest.mark.extended
@pytest.mark.usefixtures("server")
def test_a_training_on_shards_elsewhere_says_which_data_it_saw(tmp_path: Path) -> None:
    write_shards(tmp_path / "here", 60)
    put(tmp_path / "here", "run")
    (tmp_path / "contract.yaml").write_text(CONTRACT)
    with inside(tmp_path):
        ran = command("train", "contract.yaml", "--run", "a")
        assert ran.code in (0, 3), ran.err
        assert "predict a IMAGES" in ran.out
        manifest = json.loads(Path("runs/a/data/manifest.json").read_text())
        assert [one["path"] for one in manifest["facts"]["files"]] == ["s3://pets/run/part-*.tar"]
        before = tree(tmp_path / "runs")
        Path("bad.yaml").write_text(CONTRACT.replace("run/", "nowhere/"))
        refused = command("train", "bad.yaml", "--run", "b")
        assert refused.code == 2
        assert "data.path" in refused.err
        assert tree(tmp_path / "runs") == before


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


def test_a_shard_from_the_web_is_fetched_for_each_start(tmp_path: Path) -> None:
    """A server's tag says nothing of the content, so the file itself must."""
    pytest.importorskip("aiohttp")
    write_shards(tmp_path / "web", 12)
    serving = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(tmp_path / "web")))
    Thread(target=serving.serve_forever, daemon=True).start()
    try:
        url = f"http://127.0.0.1:{serving.server_port}/part-0.tar"
        first = read(tmp_path, url)
        assert seen(first) == seen(read(tmp_path, "web/part-0.tar"))
        (tmp_path / "web" / "part-1.tar").replace(tmp_path / "web" / "part-0.tar")
        assert seen(read(tmp_path, url)) != seen(first)
        signed = read(tmp_path, f"{url}?X-Amz-Signature=MINE")
        assert "MINE" not in json.dumps(signed.facts.to_json())
        with pytest.raises(DataMistake, match="no such file"):
            read(tmp_path, url.replace("part-0", "part-9"))
    finally:
        serving.shutdown()
        serving.server_close()
