"""Data files with random damage, of every format: read as they are, or refused with one message;
a checksum in the file is believed, and nothing is written."""

from __future__ import annotations

import gzip
import random
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
import zstandard

from command import tree, write_rows
from faults.tiers import times
from made_pictures import encoded, picture, samples, tar_bytes
from trainwright.contract.sections.data.images import ImageFields
from trainwright.core.errors import DataMistake
from trainwright.data.encoders.pixel_statistics import Rule
from trainwright.data.images.decode import ImageFault, decode
from trainwright.data.images.resolve_source import open_source
from trainwright.data.sources.cache import Uncached
from trainwright.data.sources.find_source import read_source

pytestmark = pytest.mark.row("F-63")
NUMBERS = (0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 2**31 - 1, 2**31, 2**32 - 1, 2**63, 2**64 - 1)


def _table(folder: Path) -> pl.DataFrame:
    write_rows(folder / "made.csv", 60)
    frame = pl.read_csv(folder / "made.csv")
    (folder / "made.csv").unlink()
    return frame.with_columns(pl.col("city").cast(pl.Categorical).alias("kind"))


TABLES: dict[str, Callable[[pl.DataFrame, Path], object]] = {
    "a.csv": lambda frame, file: frame.write_csv(file),
    "a.csv.gz": lambda frame, file: file.write_bytes(gzip.compress(frame.write_csv().encode())),
    "a.csv.zst": lambda frame, file: file.write_bytes(
        zstandard.compress(frame.write_csv().encode())
    ),
    "a.jsonl": lambda frame, file: frame.write_ndjson(file),
    "a.parquet": lambda frame, file: frame.write_parquet(file, compression="zstd"),
    "b.parquet": lambda frame, file: frame.write_parquet(file, compression="uncompressed"),
    "a.arrow": lambda frame, file: frame.write_ipc(file, compression="zstd"),
    "b.arrow": lambda frame, file: frame.write_ipc_stream(file),
}


def damaged(data: bytes, draw: random.Random) -> bytes:
    """Bits flipped, a number overwritten, a part taken out, doubled or cut off, mostly in the
    first and last bytes, where a format says what lies where."""
    found = bytearray(data)
    size = len(found)
    near = (draw.randrange(size), draw.randrange(min(size, 200)), size - 1 - draw.randrange(200))
    at = max(0, draw.choice(near))
    match draw.randrange(6):
        case 0:
            found[at] ^= 1 << draw.randrange(8)
        case 1:
            width = draw.choice([1, 2, 4, 8])
            number = draw.choice(NUMBERS) % 2 ** (8 * width)
            found[at : at + width] = number.to_bytes(width, draw.choice(["little", "big"]))
        case 2:
            del found[at : at + draw.choice([1, 8, 64])]
        case 3:
            found[at:at] = found[at : at + draw.choice([1, 8, 64])]
        case 4:
            del found[at:]
        case _:
            found += draw.choice([b"\0", b"x" * 50, bytes(found[:100])])
    return bytes(found)


@pytest.mark.parametrize("name", TABLES)
def test_a_damaged_table(name: str, tmp_path: Path, figure: Callable[..., None]) -> None:
    TABLES[name](_table(tmp_path), tmp_path / name)
    whole, draw, wrong = (tmp_path / name).read_bytes(), random.Random(3), []
    count = times(40, 2000)
    for number in range(count):
        (tmp_path / name).write_bytes(damaged(whole, draw))
        before = tree(tmp_path)
        try:
            read_source(name, tmp_path)
        except DataMistake as mistake:
            if not all(problem.fix for problem in mistake.problems):
                wrong.append(f"{number}: no fix: {mistake}")
        except Exception as error:
            wrong.append(f"{number}: {error!r:.200}")
        if tree(tmp_path) != before:
            wrong.append(f"{number}: something was written")
    figure(damaged_files=count)
    assert not wrong, "\n".join(wrong)


def test_a_damaged_file_of_images_with_checksums(
    tmp_path: Path, figure: Callable[..., None]
) -> None:
    name, fields = "a.tar.gz", ImageFields()
    members = [
        (f"{row}.{end}", data)
        for row, label, image in samples(6)
        for end, data in (("png", image), ("cls", label.encode()))
    ]
    (tmp_path / name).write_bytes(gzip.compress(tar_bytes(members)))

    def records() -> list[tuple[str, str, bytes]]:
        source = open_source(name, tmp_path, fields, "data.path", Uncached(), labelled=True)
        return [(one.name, one.label, bytes(one.data)) for one in source.records()]

    whole, expected, draw = (tmp_path / name).read_bytes(), records(), random.Random(5)
    count = times(60, 3000)
    for _ in range(count):
        (tmp_path / name).write_bytes(damaged(whole, draw))
        try:
            found = records()
        except DataMistake:
            continue
        # A file that ends between two records is whole.
        assert found == expected[: len(found)]
    figure(damaged_files=count)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "TIFF", "GIF", "BMP", "PPM"])
def test_an_image_cut_off_anywhere_has_its_pixels_or_none(
    kind: str, figure: Callable[..., None]
) -> None:
    rule = Rule((0, 0), "rgb", "stretch", "bilinear", 10**6)
    data = encoded(picture(3, 30), kind)
    whole = decode(data, rule)
    assert not isinstance(whole, ImageFault)
    sizes = range(0, len(data), times(29, 1))
    for size in sizes:
        found = decode(data[:size], rule)
        assert isinstance(found, ImageFault) or (found[0] == whole[0]).all(), size
    figure(damaged_files=len(sizes))
