"""Small image files, and every kind of source that may hold them."""

from __future__ import annotations

import gzip
import io
import json
import struct
import tarfile
import zlib
from pathlib import Path

import numpy as np
import polars as pl
from PIL import Image

CLASSES = ("bird", "cat", "dog")


def encoded(values: np.ndarray, kind: str = "PNG", **options: object) -> bytes:
    """An image file of uint8 [H, W] or [H, W, C]."""
    stream = io.BytesIO()
    Image.fromarray(values).save(stream, kind, **options)
    return stream.getvalue()


def picture(row: int, size: int = 12, channels: int = 3) -> np.ndarray:
    """Image `row`, whose class (row % 3) is the third that is bright: uint8 [H, W, C]."""
    values = np.random.default_rng(row).integers(0, 60, (size, size, channels))
    third = size // 3
    values[(row % 3) * third : (row % 3 + 1) * third] += 120
    return values.astype(np.uint8)


def sixteen_bit_png(values: np.ndarray) -> bytes:
    """Colours uint16 [H, W, C] as a PNG of 16 bits a channel, which Pillow does not write."""
    height, width, channels = values.shape
    colour = {2: 4, 3: 2, 4: 6}[channels]
    lines = b"".join(b"\0" + line.astype(">u2").tobytes() for line in values)
    chunks = {
        b"IHDR": struct.pack(">IIBBBBB", width, height, 16, colour, 0, 0, 0),
        b"IDAT": zlib.compress(lines),
        b"IEND": b"",
    }
    parts = (
        struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
        for name, body in chunks.items()
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def sixteen_bit_tiff(values: np.ndarray, **options: object) -> bytes:
    """The same as TIFF: that of the bytes as twice as many pixels, with other words in its tags."""
    height, width, channels = values.shape
    pairs = values.astype("<u2").view(np.uint8).reshape(height, 2 * width, channels)
    data = encoded(pairs, "TIFF", **options)
    for kind in (3, 4):
        wide, half = (struct.pack("<HHII", 256, kind, 1, size) for size in (2 * width, width))
        data = data.replace(wide, half)
    depth = struct.pack("<H", 8) * channels
    assert data.count(depth) == 1, "the depth alone has these bytes"
    return data.replace(depth, struct.pack("<H", 16) * channels)


def samples(count: int, size: int = 12) -> list[tuple[str, str, bytes]]:
    """Name, label and PNG of each image."""
    return [(f"{row:04d}", CLASSES[row % 3], encoded(picture(row, size))) for row in range(count)]


def write_folder(folder: Path, count: int = 60, size: int = 12) -> Path:
    """A folder with a folder for each class."""
    for name, label, data in samples(count, size):
        (folder / label).mkdir(parents=True, exist_ok=True)
        (folder / label / f"{name}.png").write_bytes(data)
    return folder


def pair_rows(count: int = 60) -> list[str]:
    """Lines of a table of images with captions, and a group for each four."""
    words = ("low", "middle", "high")
    lines = (f"shown/{at:02d}.png,{words[at % 3]} {at // 3},g{at // 4}" for at in range(count))
    return ["image,caption,image_group", *lines]


def write_pairs(folder: Path, count: int = 60, size: int = 8) -> Path:
    """`pairs.csv`, and the images that it names."""
    (folder / "shown").mkdir(parents=True, exist_ok=True)
    for at in range(count):
        (folder / "shown" / f"{at:02d}.png").write_bytes(encoded(picture(at, size)))
    (folder / "pairs.csv").write_text("\n".join(pair_rows(count)) + "\n")
    return folder / "pairs.csv"


def write_table(folder: Path, count: int = 60, kind: str = ".csv") -> Path:
    """A table of paths, with a group for each four images, and the images beside it."""
    (folder / "files").mkdir(parents=True, exist_ok=True)
    rows = []
    for name, label, data in samples(count):
        (folder / "files" / f"{name}.png").write_bytes(data)
        rows.append((f"files/{name}.png", label, f"p{int(name) // 4}"))
    frame = pl.DataFrame(rows, schema=["image", "label", "patient"], orient="row")
    file = folder / f"table{kind}"
    frame.write_csv(file) if kind == ".csv" else frame.write_parquet(file)
    return file


def write_parquet_bytes(file: Path, count: int = 60, *, struct_of: bool = False) -> Path:
    """A Parquet file with the bytes of the images, plain or as Hugging Face datasets keep them."""
    listed = samples(count)
    images: list[object] = [data for _, _, data in listed]
    if struct_of:
        images = [{"bytes": data, "path": f"{name}.png"} for name, _, data in listed]
    labels = [CLASSES.index(label) for _, label, _ in listed]
    pl.DataFrame({"image": images, "label": labels}).write_parquet(file)
    return file


def tar_bytes(members: list[tuple[str, bytes]]) -> bytes:
    """A tar file."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return stream.getvalue()


def write_shards(folder: Path, count: int = 60, *, packed: bool = False, told: str = "cls") -> Path:
    """Two WebDataset shards; labels stand in `.cls` or `.json`."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(2):
        members: list[tuple[str, bytes]] = []
        for row, (name, label, data) in enumerate(samples(count)):
            if row % 2 != number:
                continue
            members.append((f"{name}.png", data))
            said = json.dumps({"label": label, "patient": int(name) // 6}).encode()
            code = str(CLASSES.index(label)).encode()
            members.append((f"{name}.{told}", code if told == "cls" else said))
        data = tar_bytes(members)
        name = f"part-{number}.tar" + (".gz" if packed else "")
        (folder / name).write_bytes(gzip.compress(data, mtime=0) if packed else data)
    return folder
