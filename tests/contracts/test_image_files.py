"""Image files from `init` to predictions, and what is broken in them."""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from PIL import Image

from command import command, inside, tree
from faults.tiers import in_test
from made_data import make_images
from made_pictures import (
    encoded,
    picture,
    sixteen_bit_png,
    write_folder,
    write_parquet_bytes,
    write_shards,
    write_table,
)
from trainwright.run.after.evaluate_rows import evaluate_rows
from trainwright.tracking.run_folder import RunFolder

TINY = """
model: {kind: linear}
metric: {name: accuracy, target: 0.5, resamples: 100}
"""
SOURCES: dict[str, tuple[str, Callable[[Path], object]]] = {
    "folder": ("pets", lambda at: write_folder(at / "pets")),
    "table": ("pets/table.csv", lambda at: write_table(at / "pets")),
    "parquet": ("pets.parquet", lambda at: write_parquet_bytes(at / "pets.parquet")),
    "tar": ("pets", lambda at: write_shards(at / "pets")),
    "tar file": ("pets/part-0.tar", lambda at: write_shards(at / "pets")),
    "tar pattern": ("pets/part-*.tar", lambda at: write_shards(at / "pets")),
}


@pytest.mark.parametrize("name", in_test(4, list(SOURCES)))
def test_init_makes_a_contract_that_trains_and_predicts(tmp_path: Path, name: str) -> None:
    source, write = SOURCES[name]
    write(tmp_path)
    with inside(tmp_path):
        made = command("init", source)
        assert made.code == 0, made.err
        text = Path("contract.yaml").read_text()
        assert "size: [12, 12], channels: rgb" in text
        Path("contract.yaml").write_text(re.sub(r"model: .*", "model: {kind: linear}", text))
        assert command("check", "contract.yaml").code == 0
        trained = command("train", "contract.yaml", "--set", "metric.resamples=100", "--run", "a")
        assert trained.code in (0, 3), trained.err
        predicted = command("predict", "a", source, "-o", "out.csv")
        assert predicted.code == 0, predicted.err
        out = pl.read_csv("out.csv")
        judged = command("evaluate", "a", source, "--json")
        assert judged.code in (0, 3), judged.err
        assert any("was trained on" in text for text in json.loads(judged.out)["warnings"])
    assert out.columns[:2] == ["image", "prediction"]
    assert out.height == (30 if name == "tar file" else 60)
    if name == "folder":
        told = out["image"].str.split("/").list.first()
        assert (told == out["prediction"]).mean() > 0.8


def test_init_groups_a_table_that_names_patients(tmp_path: Path) -> None:
    write_table(tmp_path / "pets")
    with inside(tmp_path):
        assert command("init", "pets/table.csv").code == 0
        assert "group: patient" in Path("contract.yaml").read_text()


def test_a_table_of_numbers_still_needs_its_target(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("a,b\n1,2\n3,4\n")
    with inside(tmp_path):
        before = tree(tmp_path)
        ran = command("init", "rows.csv")
        assert ran.code == 2
        assert "fix: --target b" in ran.err
        assert tree(tmp_path) == before


def test_one_idx_file_leads_to_its_folder(tmp_path: Path) -> None:
    make_images(tmp_path / "garments")
    with inside(tmp_path):
        ran = command("init", "garments/train-images-idx3-ubyte.gz")
        assert ran.code == 2
        advised = re.search("fix: trainwright (.*)", ran.err)
        assert advised
        assert command(*advised[1].split()).code == 0


def several(kind: str) -> bytes:
    """A file of three images."""
    stream = io.BytesIO()
    frames = [Image.fromarray(picture(row)) for row in range(3)]
    frames[0].save(stream, kind, save_all=True, append_images=frames[1:])
    return stream.getvalue()


def float_tiff() -> bytes:
    return encoded(np.zeros((4, 4), np.float32), "TIFF")


WHOLE = encoded(picture(0, 40), "JPEG", quality=90)
BROKEN = {
    "empty": (b"", "the file is empty"),
    "cut off": (WHOLE[: len(WHOLE) // 2], "damaged or cut off"),
    "cut in its header": (WHOLE[:30], "."),
    "no image": (b"id,name\n1,a\n", "no image that can be read"),
    "pickle": (b"\x80\x04\x95\x10", "no image that can be read"),
    "PostScript": (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "no image that can be"),
    "SVG": (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "no image that can be read"),
    "large": (encoded(picture(0, 60)), "more pixels than allowed"),
    "animated": (several("GIF"), "a sequence of images"),
    "pages": (several("TIFF"), "a sequence of images"),
    "floats": (float_tiff(), "floating-point"),
}


def contract(folder: Path, path: str, more: str = "", data: str = "") -> Path:
    file = folder / "contract.yaml"
    decoding = f"decoding: {{size: [12, 12], most_pixels: 3000, cache: cache{more}}}"
    file.write_text(f"data: {{kind: images, path: {path}, {decoding}{data}}}\n{TINY}")
    return file


@pytest.mark.parametrize("name", in_test(3, list(BROKEN), start=1))
def test_a_broken_image_stops_or_is_left_out_and_counted(tmp_path: Path, name: str) -> None:
    data, message = BROKEN[name]
    write_folder(tmp_path / "pets")
    (tmp_path / "pets" / "cat" / "bad.png").write_bytes(data)
    before = tree(tmp_path / "pets")
    with inside(tmp_path):
        ran = command("train", contract(tmp_path, "pets"))
        assert ran.code == 2
        assert "pets/cat/bad.png" in ran.err
        assert re.search(message, ran.err)
        assert "corrupt: drop" in ran.err
        assert not Path("runs").exists()
        assert not list(Path("cache").rglob("*.u8"))
        dropped = command("train", contract(tmp_path, "pets", ", corrupt: drop"), "--run", "a")
        assert dropped.code in (0, 3), dropped.err
    manifest = (tmp_path / "runs" / "a" / "data" / "manifest.json").read_text()
    for told in (manifest, dropped.err):
        assert "1 unreadable image of pets skipped" in told
        assert "cat/bad.png" in told
    assert tree(tmp_path / "pets") == before


OUTSIDE = ("../other.png", "/other.png", "files/../../other.png", "files/link.png", "a\x00b")


@pytest.mark.parametrize("path", OUTSIDE)
def test_a_path_that_leads_out_of_its_folder_always_stops(tmp_path: Path, path: str) -> None:
    write_table(tmp_path / "pets")
    (tmp_path / "other.png").write_bytes(encoded(picture(0)))
    (tmp_path / "pets" / "files" / "link.png").symlink_to(tmp_path / "other.png")
    frame = pl.read_csv(tmp_path / "pets" / "table.csv")
    frame = frame.with_columns(
        image=pl.when(pl.int_range(pl.len()) == 7).then(pl.lit(path)).otherwise("image")
    )
    frame.write_parquet(tmp_path / "pets" / "table.parquet")
    with inside(tmp_path):
        ran = command("check", contract(tmp_path, "pets/table.parquet", ", corrupt: drop"))
        assert ran.code == 2
        assert "leads out of its folder" in ran.err or "no path of a file" in ran.err
        assert not list(Path("cache").rglob("*.u8"))


def test_a_missing_file_is_named_with_its_line(tmp_path: Path) -> None:
    write_table(tmp_path / "pets")
    (tmp_path / "pets" / "files" / "0003.png").unlink()
    with inside(tmp_path):
        ran = command("check", contract(tmp_path, "pets/table.csv"))
    assert ran.code == 2
    assert "pets/table.csv:5: there is no such file" in ran.err


@pytest.mark.parametrize("kind", ["link out", "pipe"])
def test_links_and_pipes_in_a_folder_stop(tmp_path: Path, kind: str) -> None:
    write_folder(tmp_path / "pets")
    (tmp_path / "other.png").write_bytes(encoded(picture(0)))
    bad = tmp_path / "pets" / "cat" / "x.png"
    if kind == "pipe":
        os.mkfifo(bad)
    else:
        bad.symlink_to(tmp_path / "other.png")
    with inside(tmp_path):
        ran = command("check", contract(tmp_path, "pets", ", corrupt: drop"))
    assert ran.code == 2
    assert "pets/cat/x.png" in ran.err


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "", size: int = 0) -> bytes:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size = kind, link, size
    return info.tobuf()


END = bytes(1024)
BROKEN_TARS = {
    "link": member("a.png", tarfile.SYMTYPE, "b.png") + END,
    "hard link": member("a.png", tarfile.LNKTYPE, "b.png") + END,
    "no tar": b"\x89PNG" + bytes(600),
    "cut off": member("0.png", size=5000) + bytes(512),
    "cut in a name": member("a", tarfile.GNUTYPE_LONGNAME, size=5000) + END,
    "cut in a header": member("a", tarfile.XHDTYPE, size=5000) + END,
    "empty": b"",
    "only zeros": bytes(2048),
}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("name", BROKEN_TARS)
def test_a_broken_tar_is_refused_and_writes_nothing(
    tmp_path: Path, name: str, packed: bool
) -> None:
    data = BROKEN_TARS[name]
    file = tmp_path / ("a.tar.gz" if packed else "a.tar")
    file.write_bytes(gzip.compress(data) if packed else data)
    with inside(tmp_path):
        ran = command("check", contract(tmp_path, file.name, ", corrupt: drop"))
        assert ran.code == 2
        assert file.name in ran.err
        assert "Traceback" not in ran.err
        assert not list(Path("cache").rglob("*.u8"))


def test_prediction_of_a_broken_image_writes_nothing(tmp_path: Path) -> None:
    write_folder(tmp_path / "pets")
    with inside(tmp_path):
        trained = command("train", contract(tmp_path, "pets"), "--run", "a")
        assert trained.code in (0, 3), trained.err
        Path("new").mkdir()
        for row in range(3):
            Path(f"new/{row}.jpg").write_bytes(encoded(picture(row, 50), "JPEG"))
        whole = command("predict", "a", "new", "-o", "out.csv")
        assert whole.code == 0, whole.err
        assert pl.read_csv("out.csv")["image"].to_list() == ["0.jpg", "1.jpg", "2.jpg"]
        Path("out.csv").unlink()
        Path("new/2.jpg").write_bytes(WHOLE[:200])
        ran = command("predict", "a", "new", "-o", "out.csv")
        assert ran.code == 2
        assert "2.jpg" in ran.err
        assert not Path("out.csv").exists()
        assert command("predict", "a", "new/1.jpg").out.count("\n") == 2


def write_wide(folder: Path, low: int, high: int, kind: str, rows: int = 60) -> None:
    """Images of 16 bits of which the bright and the dark are a class each."""
    draw = np.random.default_rng(0)
    for row in range(rows):
        name = ("dark", "bright")[row % 2]
        values = low + (high - low) * np.clip(draw.normal(0.3 + 0.4 * (row % 2), 0.1, (8, 8)), 0, 1)
        (folder / name).mkdir(parents=True, exist_ok=True)
        wide = values.astype(np.uint16)
        if kind == "colours":
            data = sixteen_bit_png(np.stack([wide] * 3, axis=2))
            (folder / name / f"{row}.png").write_bytes(data)
        else:
            Image.fromarray(wide).save(folder / name / f"{row}.{kind}")


@pytest.mark.parametrize(
    ("low", "high", "kind"),
    [
        (0, 4095, "png"),
        (0, 1023, "tif"),
        (32_000, 34_000, "png"),
        (200, 455, "pgm"),
        (200, 455, "colours"),
    ],
)
def test_sixteen_bits_have_the_range_of_the_training_files(
    tmp_path: Path, low: int, high: int, kind: str
) -> None:
    write_wide(tmp_path / "pets", low, high, kind)
    write_wide(tmp_path / "same", low, high, kind, 20)
    write_wide(tmp_path / "wide", 0, 65_535, kind, 20)
    with inside(tmp_path):
        trained = command("train", contract(tmp_path, "pets"), "--run", "a")
        assert trained.code in (0, 3), trained.err
        scores = re.search(r"accuracy · model ([\d.]+)", trained.out + trained.err)
        assert scores is not None
        assert float(scores[1]) > 0.9
        recorded = json.loads(Path("runs/a/bundle/features.json").read_text())["decoding"]["wide"]
        assert low <= recorded[0] < recorded[1] <= high
        for source, exceeds in (("same", False), ("wide", True)):
            told = "20 of 20 images with pixels of 16 bits outside"
            for words in (("predict", "a", source, "-o", "out.csv"), ("evaluate", "a", source)):
                ran = command(*words)
                assert ran.code in (0, 3), ran.err
                assert (told in ran.out + ran.err) is exceeds


@pytest.mark.extended
def test_evaluate_says_nothing_of_images_that_were_kept_from_the_weights(tmp_path: Path) -> None:
    write_folder(tmp_path / "pets" / "train", 60)
    write_folder(tmp_path / "pets" / "val", 30)
    write_folder(tmp_path / "pets" / "test", 30, size=14)
    make_images(tmp_path / "digits")
    with inside(tmp_path):
        assert command("train", contract(tmp_path, "pets"), "--run", "a").code in (0, 3)
        text = "data: {kind: images, path: digits}" + TINY
        Path("digits.yaml").write_text(text)
        assert command("train", "digits.yaml", "--run", "b").code in (0, 3)
        for run, source, seen in (
            ("a", "pets/train", True),
            ("a", "pets/val", False),
            ("a", "pets/test", False),
            ("b", "digits/train-images-idx3-ubyte.gz", True),
            ("b", "digits/t10k-images-idx3-ubyte.gz", False),
        ):
            judged = command("evaluate", run, source)
            assert judged.code in (0, 3), judged.err
            assert ("was trained on" in judged.out + judged.err) is seen, source


@pytest.mark.extended
def test_images_of_a_group_are_one_unit_where_they_name_their_groups(tmp_path: Path) -> None:
    table = pl.read_csv(write_table(tmp_path / "pets"))
    table.drop("patient").write_csv(tmp_path / "pets" / "plain.csv")
    table.with_columns(label=pl.lit("eel")).write_csv(tmp_path / "pets" / "wrong.csv")
    with inside(tmp_path):
        assert command("init", "pets/table.csv").code == 0
        text = Path("contract.yaml").read_text()
        Path("contract.yaml").write_text(re.sub(r"model: .*", "model: {kind: linear}", text))
        assert command("train", "contract.yaml", "--run", "a").code in (0, 3)
        folder = RunFolder.open(Path("runs/a"))
        judged = [evaluate_rows(folder, f"pets/{name}.csv") for name in ("table", "plain")]
        sizes = [(one.evaluation.rows, one.evaluation.units) for one in judged]
        assert sizes == [(60, 15), (60, 60)]
        told = [
            any("does not name the groups" in text for text in one.evaluation.warnings)
            for one in judged
        ]
        assert told == [False, True]
        refused = command("evaluate", "a", "pets/wrong.csv")
        assert refused.code == 2
        assert "labels that are no class" in refused.err


def test_a_prediction_does_not_depend_on_where_the_images_come_from(tmp_path: Path) -> None:
    write_folder(tmp_path / "pets")
    write_table(tmp_path / "table")
    write_shards(tmp_path / "shards")
    with inside(tmp_path):
        assert command("train", contract(tmp_path, "pets"), "--run", "a").code in (0, 3)
        found = []
        for source in ("pets", "table/table.csv", "shards"):
            assert command("predict", "a", source, "-o", "out.csv").code == 0
            out = pl.read_csv("out.csv")
            key = out["image"].cast(pl.String).str.zfill(4).str.extract(r"(\d{4})")
            found.append(out.with_columns(image=key).sort("image"))
    assert found[0].equals(found[1])
    assert found[0].equals(found[2])


def test_the_sheet_shows_images_beside_their_epochs(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    write_folder(tmp_path / "pets")
    augment = ", augment: {flip: true, randaugment: {operations: 2}, colors: {hue: 0.1}}"
    with inside(tmp_path):
        file = contract(tmp_path, "pets", data=augment)
        ran = command("data", "show", file, "-o", "sheet.png", "--images", "5", "--epochs", "3")
        assert ran.code == 0, ran.err
        sheet = np.asarray(Image.open("sheet.png"))
        again = command("data", "show", file, "-o", "again.png", "--images", "5", "--epochs", "3")
        assert again.code == 0
        assert Path("again.png").read_bytes() == Path("sheet.png").read_bytes()
        (tmp_path / "rows.csv").write_text("a,b\n1,2\n")
        (tmp_path / "table.yaml").write_text("data: {path: rows.csv}\nmodel: {kind: boosting}\n")
        refused = command("data", "show", "table.yaml")
        assert refused.code == 2
        assert "only images can be shown" in refused.err
        assert not Path("images.png").exists()
    side = 72
    assert sheet.shape == (5 * side + 4 * 4, 4 * side + 3 * 4, 3)
    # The first column are the images themselves, of all classes in turn.
    thirds = sheet[:side, :side].reshape(3, side // 3, side, 3).mean(axis=(1, 2, 3))
    assert int(thirds.argmax()) == 0
    assert not np.array_equal(sheet[:side, :side], sheet[:side, side + 4 : 2 * side + 4])
