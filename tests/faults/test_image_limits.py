"""Image files, shards and records are held against limits before their pixels are unpacked."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from PIL import PngImagePlugin

from command import command, inside
from lowered_limits import A_THOUSAND_BYTES, Limited
from made_data import idx_bytes
from made_pictures import encoded, picture, samples, tar_bytes
from trainwright.data.dispatch import read_data

pytestmark = pytest.mark.row("F-63")

CONTRACT = """\
name: a
data: {{kind: images, path: {path}, decoding: {{size: [12, 12], cache: off}}{more}}}
model: {{kind: linear}}
metric: {{name: accuracy}}
"""
DATA = "trainwright.data.images"


def images(path: str, more: str = "") -> str:
    """A contract of images."""
    return CONTRACT.format(path=path, more=more)


def black(row: int) -> bytes:
    """A picture that packs well."""
    return encoded(np.full((100, 100, 3), row, np.uint8), "BMP")


def tar_gzip(folder: Path) -> str:
    members = [
        (f"{row}.{end}", data)
        for row in range(12)
        for end, data in (("bmp", black(row)), ("cls", b"ab"[row % 2 : row % 2 + 1]))
    ]
    (folder / "a.tar.gz").write_bytes(gzip.compress(tar_bytes(members)))
    return images("a.tar.gz")


def tar_members(folder: Path) -> str:
    """Three members of each sample."""
    members = [
        (f"{name}.{end}", data)
        for name, label, png in samples(12)
        for end, data in (("png", png), ("cls", label.encode()), ("txt", b"a note" * 50))
    ]
    (folder / "a.tar").write_bytes(tar_bytes(members))
    return images("a.tar")


def tar_names(folder: Path) -> str:
    """Names of 150 letters, which a tar file keeps in a header of their own."""
    members = [
        (f"{'n' * 150}{name}.{end}", data)
        for name, label, png in samples(12)
        for end, data in (("png", png), ("cls", label.encode()))
    ]
    (folder / "a.tar").write_bytes(tar_bytes(members))
    return images("a.tar")


def idx(folder: Path) -> str:
    """Black pictures, as many as the header says."""
    (folder / "m").mkdir()
    for name, values in (
        ("images-idx3", np.zeros((240, 12, 12))),
        ("labels-idx1", np.arange(240) % 2),
    ):
        (folder / "m" / f"train-{name}-ubyte.gz").write_bytes(gzip.compress(idx_bytes(values)))
    return images("m").replace(", decoding: {size: [12, 12], cache: off}", "")


def of_files(folder: Path, end: str, data: bytes) -> str:
    """A contract of a folder for each class, of which one holds the file and some others."""
    for row, label in enumerate(("cat", "dog") * 6):
        (folder / "pets" / label).mkdir(parents=True, exist_ok=True)
        (folder / "pets" / label / f"{row}.png").write_bytes(encoded(picture(row)))
    (folder / "pets" / "cat" / f"a{end}").write_bytes(data)
    return images("pets")


def png(folder: Path) -> str:
    return of_files(folder, ".png", encoded(picture(0, 24)))


def webp(folder: Path) -> str:
    return of_files(folder, ".webp", encoded(picture(0, 24), "WEBP", lossless=True))


def png_text(folder: Path) -> str:
    """Text beside the pixels, packed."""
    about = PngImagePlugin.PngInfo()
    about.add_text("about", "a picture " * 50, zip=True)
    return of_files(folder, ".png", encoded(picture(0), pnginfo=about))


def jpeg(folder: Path) -> str:
    """Ten scans, as a progressive JPEG has."""
    return of_files(folder, ".jpg", encoded(picture(0, 24), "JPEG", progressive=True))


UNPACKS, PIXELS = "unpacks to far more than its size", "more pixels than allowed"
FEW_PIXELS = ("data.decoding.most_pixels=500",)
LIMITED = {
    "tar_gzip": Limited(tar_gzip, UNPACKS, A_THOUSAND_BYTES),
    "tar_gzip_passed_over": Limited(
        tar_gzip, UNPACKS, A_THOUSAND_BYTES | {f"{DATA}.webdataset.MOST_IMAGE_BYTES": 1000}
    ),
    "tar_members": Limited(
        tar_members, "too large together", {f"{DATA}.webdataset.MOST_IMAGE_BYTES": 600}
    ),
    "tar_names": Limited(
        tar_names, "a header of", {f"{DATA}.webdataset.MOST_TAR_HEADER_BYTES": 100}
    ),
    "idx": Limited(idx, "impossible sizes", A_THOUSAND_BYTES),
    "file_size": Limited(
        png, "too large for an image", {f"{DATA}.read_image_file.MOST_IMAGE_BYTES": 1000}
    ),
    "png": Limited(png, PIXELS, settings=FEW_PIXELS),
    "webp": Limited(webp, PIXELS, settings=FEW_PIXELS),
    "png_of_pillow": Limited(png, PIXELS, {"PIL.Image.MAX_IMAGE_PIXELS": 200}),
    "webp_of_pillow": Limited(webp, PIXELS, {"PIL.Image.MAX_IMAGE_PIXELS": 200}),
    "png_text": Limited(
        png_text, "Decompressed data too large", {"PIL.PngImagePlugin.MAX_TEXT_CHUNK": 100}
    ),
    "jpeg": Limited(
        jpeg, "more scans than any encoder writes", {f"{DATA}.decode.MOST_JPEG_SCANS": 3}
    ),
}


@pytest.mark.parametrize("name", LIMITED)
def test_images_are_refused_at_a_lower_limit_and_read_at_the_usual_one(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    contract = LIMITED[name].refused(tmp_path, monkeypatch)
    assert read_data(contract.data, tmp_path).facts.rows > 2


def test_a_contract_cannot_ask_for_images_beyond_the_limit(tmp_path: Path) -> None:
    (tmp_path / "contract.yaml").write_text(png(tmp_path))
    with inside(tmp_path):
        ran = command("check", "contract.yaml", "--set", "data.decoding.size=[10000, 10000]")
    assert ran.code == 2
    assert "more pixels than is allowed" in ran.err
