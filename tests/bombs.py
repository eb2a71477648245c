"""Files of a few kilobytes or megabytes that claim, or unpack to, more than a machine has. Each
maker writes one into a folder and gives the `data` section of a contract that names it."""

from __future__ import annotations

import io
import json
import struct
import tarfile
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import zstandard
from PIL import Image

from made_pictures import example
from trainwright.data.images.tfrecord import masked_crc32c

Maker = Callable[[Path], str]

TABLE = "path: {name}\n  target: y"
IMAGES = "kind: images\n  path: {name}"
TEXT = "kind: tokens\n  path: {name}"
_MEBIBYTE = 2**20


def packed_gzip(head: bytes, block: bytes, count: int) -> bytes:
    """A gzip file of a head and `count` equal blocks, of which one is packed. Its checksum is
    wrong, which is seen at its end only."""
    packer = zlib.compressobj(6, wbits=31)
    start = packer.compress(head) + packer.flush(zlib.Z_FULL_FLUSH)
    packed = packer.compress(block) + packer.flush(zlib.Z_FULL_FLUSH)
    return start + packed * count + packer.flush()


def zeros(mebibytes: int) -> bytes:
    """So many zero bytes."""
    return bytes(mebibytes * _MEBIBYTE)


def contract_of(section: str) -> str:
    """A contract with this section of data."""
    task, model, metric = "classification", "{kind: boosting}", "accuracy"
    if "kind: images" in section:
        model = "{kind: resnet}"
    if "kind: tokens" in section:
        task, model, metric = "generation", "{kind: gpt}", "nats_per_token"
    data = f"data:\n  {section}"
    return f"name: a\ntask: {task}\n{data}\nmodel: {model}\nmetric: {{name: {metric}}}\n"


def _write(folder: Path, name: str, data: bytes, section: str = TABLE) -> str:
    (folder / name).write_bytes(data)
    return section.replace("{name}", name)


def csv_gzip(folder: Path) -> str:
    return _write(folder, "a.csv.gz", packed_gzip(b"a,y\n", b"1,0\n2,1\n" * 2**17, 512))


def csv_zstd(folder: Path) -> str:
    frame = zstandard.compress(b"1,0\n2,1\n" * 2**17)
    return _write(folder, "a.csv.zst", zstandard.compress(b"a,y\n") + frame * 512)


def csv_columns(folder: Path) -> str:
    names = ",".join(f"c{i}" for i in range(200_000))
    row = ",".join("1" * 200_000)
    return _write(folder, "a.csv", f"{names},y\n{row},0\n{row},1\n".encode())


def csv_equal_names(folder: Path) -> str:
    names = ",".join(["c"] * 200_000)
    row = ",".join("1" * 200_000)
    section = f"{TABLE}\n  reading: {{repeated_names: rename}}"
    return _write(folder, "a.csv", f"{names},y\n{row},0\n{row},1\n".encode(), section)


def csv_commas(folder: Path) -> str:
    """A line of fields without end, in a file that is not packed far."""
    line = b"," * (80 * _MEBIBYTE)
    random = np.random.default_rng(0).integers(48, 58, 2**19, np.uint8).tobytes()
    return _write(folder, "a.csv.gz", packed_gzip(b"a,y\n1," + random + b"\n", line, 1))


def json_keys(folder: Path) -> str:
    """Each line has a key of its own: as a table the square of the lines."""
    lines = "".join(f'{{"c{i}": 1, "y": {i % 2}}}\n' for i in range(60_000))
    return _write(folder, "a.jsonl", lines.encode())


def json_sparse(folder: Path) -> str:
    """Few enough keys, but each line has one of them."""
    lines = "".join(f'{{"c{i % 9000}": 1, "y": {i % 2}}}\n' for i in range(120_000))
    return _write(folder, "a.jsonl", lines.encode())


def json_objects(folder: Path) -> str:
    """A line of empty objects: each letter becomes twenty bytes."""
    line = b'{"a": [' + b"{}," * (6 * _MEBIBYTE) + b'{}], "y": 1}\n'
    return _write(folder, "a.jsonl.gz", zlib.compress(line, 1, wbits=31))


def parquet_rows(folder: Path) -> str:
    """Columns of one value, 100 million rows: runs of one value are a few bytes."""
    import pyarrow
    from pyarrow import parquet

    ones = pyarrow.table({"y": pyarrow.array(np.zeros(2 * 10**7, np.int32))})
    options = {"compression": "zstd", "write_statistics": False}
    with parquet.ParquetWriter(folder / "a.parquet", ones.schema, **options) as writer:
        for _ in range(5):
            writer.write_table(ones, row_group_size=2 * 10**7)
    return TABLE.format(name="a.parquet")


def parquet_columns(folder: Path) -> str:
    columns = {f"c{i}": [0, 1] for i in range(60_000)}
    pl.DataFrame(columns | {"y": [0, 1]}).write_parquet(
        folder / "a.parquet", statistics=False, compression="uncompressed"
    )
    return TABLE.format(name="a.parquet")


def parquet_page(folder: Path) -> str:
    """Texts of 200 MB, each of which a page packs into a few kilobytes."""
    import pyarrow
    from pyarrow import parquet

    table = pyarrow.table({"a": ["x" * (200 * _MEBIBYTE)], "y": [0]})
    options = {"compression": "zstd", "use_dictionary": False, "write_statistics": False}
    with parquet.ParquetWriter(folder / "a.parquet", table.schema, **options) as writer:
        for _ in range(2):
            writer.write_table(table)
    return TABLE.format(name="a.parquet")


def parquet_dictionary(folder: Path, *, categories: bool = False) -> str:
    """A text of a megabyte that each of 20,000 rows points to."""
    import pyarrow
    from pyarrow import parquet

    codes = pyarrow.array(np.zeros(20_000, np.int32))
    text = pyarrow.DictionaryArray.from_arrays(codes, pyarrow.array(["x" * 10**6]))
    table = pyarrow.table({"a": text, "y": np.arange(20_000) % 2})
    parquet.write_table(table, folder / "a.parquet", compression="zstd", store_schema=categories)
    return TABLE.format(name="a.parquet")


def parquet_categories(folder: Path) -> str:
    """The same, as categories of Arrow."""
    return parquet_dictionary(folder, categories=True)


def parquet_prefixes(folder: Path) -> str:
    """Each text repeats all of the one before it, and says only how much."""
    import pyarrow
    from pyarrow import parquet

    codes = pyarrow.array(np.zeros(3000, np.int32))
    text = pyarrow.DictionaryArray.from_arrays(codes, pyarrow.array(["x" * 10**5])).cast("string")
    table = pyarrow.table({"a": text, "y": np.arange(3000) % 2})
    options = {"use_dictionary": ["y"], "column_encoding": {"a": "DELTA_BYTE_ARRAY"}}
    parquet.write_table(table, folder / "a.parquet", write_statistics=False, **options)
    return TABLE.format(name="a.parquet")


def arrow_packed(folder: Path) -> str:
    """Columns of zeros, packed inside the file."""
    import pyarrow
    from pyarrow import feather

    values = np.zeros(50_000_000, np.int64)
    table = pyarrow.table({"a": values, "y": values})
    feather.write_feather(table, str(folder / "a.feather"), compression="zstd", chunksize=10**8)
    return TABLE.format(name="a.feather")


def arrow_text(folder: Path) -> str:
    """One text of 3 GB, packed inside the file."""
    import pyarrow
    from pyarrow import feather

    table = pyarrow.table({"a": ["x" * (400 * _MEBIBYTE)] * 2, "y": [0, 1]})
    feather.write_feather(table, str(folder / "a.feather"), compression="zstd")
    return TABLE.format(name="a.feather")


def arrow_nulls(folder: Path) -> str:
    """Rows of a type that takes no bytes."""
    import pyarrow

    table = pyarrow.table({"y": pyarrow.nulls(10**9)})
    with pyarrow.ipc.new_file(folder / "a.arrow", table.schema) as stream:
        stream.write_table(table)
    return TABLE.format(name="a.arrow")


def arrow_stream(folder: Path) -> str:
    """The same as `arrow_packed` in the format of streams."""
    import pyarrow

    values = np.zeros(50_000_000, np.int64)
    table = pyarrow.table({"a": values, "y": values})
    options = pyarrow.ipc.IpcWriteOptions(compression="zstd")
    with pyarrow.ipc.new_stream(folder / "a.arrow", table.schema, options=options) as stream:
        stream.write_table(table)
    return TABLE.format(name="a.arrow")


def tar_gzip(folder: Path) -> str:
    """Members of zeros, one after the other."""
    block = b"".join(
        _member(f"{row}.{kind}", size) + bytes(size)
        for row in range(4)
        for kind, size in (("png", 10 * _MEBIBYTE), ("cls", 512))
    )
    return _write(folder, "a.tar.gz", packed_gzip(b"", block, 20), IMAGES)


def _member(name: str, size: int, kind: bytes = tarfile.REGTYPE) -> bytes:
    info = tarfile.TarInfo(name)
    info.size, info.type = size, kind
    return info.tobuf(tarfile.GNU_FORMAT)


def tar_member(folder: Path) -> str:
    """A member that is larger than the archive, and is passed over."""
    head = _member("0.png", 12_000 * _MEBIBYTE)
    return _write(folder, "a.tar.gz", packed_gzip(head, zeros(1), 1000), IMAGES)


def tar_sample(folder: Path) -> str:
    """One sample of many members, in a file that takes no room on the disk."""
    size = 200 * _MEBIBYTE
    with (folder / "a.tar").open("wb") as stream:
        for row in range(16):
            stream.write(_member(f"0.{row}.bin", size))
            stream.seek(size, 1)
        stream.write(bytes(1024))
    return IMAGES.format(name="a.tar")


def tar_name(folder: Path) -> str:
    """A header that says the name of the next member, in 250 MB."""
    head = _member("././@LongLink", 250 * _MEBIBYTE, tarfile.GNUTYPE_LONGNAME)
    return _write(folder, "a.tar.gz", packed_gzip(head, b"n" * _MEBIBYTE, 250), IMAGES)


def idx(folder: Path) -> str:
    """16 GB of pixels, as the header says truly."""
    (folder / "m").mkdir()
    head = struct.pack(">IIII", 0x803, 2**20, 128, 128)
    (folder / "m" / "train-images-idx3-ubyte.gz").write_bytes(packed_gzip(head, zeros(1), 2**10))
    (folder / "m" / "train-labels-idx1-ubyte").write_bytes(struct.pack(">II", 0x801, 2) + b"\0\1")
    return IMAGES.format(name="m")


def _record(data: bytes) -> bytes:
    head = struct.pack("<Q", len(data))
    sums = (struct.pack("<I", masked_crc32c(part)) for part in (head, data))
    return head + next(sums) + data + next(sums)


def tfrecord_gzip(folder: Path) -> str:
    """Records of zeros."""
    record = _record(example({"image": zeros(16), "label": 1}))
    return _write(folder, "a.tfrecord.gz", packed_gzip(b"", record, 60), IMAGES)


def tfrecord_features(folder: Path) -> str:
    """A record of millions of features without a name."""
    entry = b"\n\x02\n\x00"
    features = entry * 8_000_000
    size, varint = len(features), b""
    while size > 127:
        varint += bytes([size & 127 | 128])
        size >>= 7
    data = b"\n" + varint + bytes([size]) + features
    return _write(folder, "a.tfrecord", _record(data), IMAGES)


def _image(folder: Path, name: str, data: bytes, extra: str = "") -> str:
    for label in ("cat", "dog"):
        (folder / "images" / label).mkdir(parents=True, exist_ok=True)
        for row in range(4):
            (folder / "images" / label / f"{row}{name}").write_bytes(data)
    return IMAGES.format(name="images") + extra


def _chunk(kind: bytes, data: bytes) -> bytes:
    check = struct.pack(">I", zlib.crc32(kind + data))
    return struct.pack(">I", len(data)) + kind + data + check


def png_pixels(folder: Path) -> str:
    head = _chunk(b"IHDR", struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0))
    body = _chunk(b"IDAT", zlib.compress(bytes(64 * _MEBIBYTE), 9))
    return _image(folder, ".png", b"\x89PNG\r\n\x1a\n" + head + body + _chunk(b"IEND", b""))


def png_text(folder: Path) -> str:
    """Text that unpacks to 128 MB beside a single pixel."""
    text = b"a\0\0" + zlib.compress(bytes(128 * _MEBIBYTE), 9)
    head = _chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0))
    body = _chunk(b"zTXt", text) + _chunk(b"IDAT", zlib.compress(b"\0\0"))
    return _image(folder, ".png", b"\x89PNG\r\n\x1a\n" + head + body + _chunk(b"IEND", b""))


def webp_canvas(folder: Path) -> str:
    """A canvas of 64 GB with a frame of one pixel."""
    stream = io.BytesIO()
    Image.new("RGB", (2, 2)).save(stream, "WEBP", lossless=True)
    frame = stream.getvalue()[12:]
    side = struct.pack("<I", 65_000 - 1)[:3]
    extended = b"VP8X" + struct.pack("<I", 10) + b"\0\0\0\0" + side + side
    body = b"WEBP" + extended + frame
    return _image(folder, ".webp", b"RIFF" + struct.pack("<I", len(body)) + body)


def tiff_directories(folder: Path) -> str:
    """A chain of a million directories without an entry."""
    count = 700_000
    entries = [(256, 4, 1, 2), (257, 4, 1, 2), (258, 3, 1, 8), (259, 3, 1, 1), (262, 3, 1, 1)]
    entries += [(273, 4, 1, 8), (277, 3, 1, 1), (278, 4, 1, 2), (279, 4, 1, 4)]
    fields = b"".join(struct.pack("<HHII", *entry) for entry in entries)
    first = struct.pack("<H", len(entries)) + fields
    start = 12 + len(first) + 4
    chain = b"".join(struct.pack("<HI", 0, start + 6 * row) for row in range(1, count))
    head = b"II*\0" + struct.pack("<I", 12) + bytes(4)
    data = head + first + struct.pack("<I", start) + chain + struct.pack("<HI", 0, 0)
    return _image(folder, ".tif", data)


def jpeg_scans(folder: Path) -> str:
    """Thousands of scans that each pass over all pixels and change none."""
    stream = io.BytesIO()
    Image.new("L", (6400, 6400)).save(stream, "JPEG", progressive=True)
    data = stream.getvalue()
    last = data.rindex(b"\xff\xda")
    scan = data[last:-2]
    return _image(folder, ".jpg", data[:last] + scan * 6000 + b"\xff\xd9")


def image_size(folder: Path) -> str:
    """A contract that asks for images of 30 GB each."""
    stream = io.BytesIO()
    Image.new("RGB", (2, 2)).save(stream, "PNG")
    return _image(folder, ".png", stream.getvalue(), "\n  decoding: {size: [100000, 100000]}")


def _tokenizer(folder: Path, tokenizer: dict[str, object], text: str) -> str:
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    (folder / "a.txt").write_text(text)
    return f"{TEXT.format(name='a.txt')}\n  vocabulary: tokenizer\n  tokenizer: tokenizer.json"


def _model(**parts: object) -> dict[str, object]:
    vocabulary = {"a": 0, "b": 1, "[UNK]": 2}
    model = {"type": "WordLevel", "vocab": vocabulary, "unk_token": "[UNK]"}
    empty = dict.fromkeys(("normalizer", "pre_tokenizer", "post_processor", "decoder"))
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": []} | {
        **empty,
        "model": model,
        **parts,
    }


def tokenizer_growth(folder: Path) -> str:
    """Forty rules that each double a text."""
    double = {"type": "Replace", "pattern": {"String": "a"}, "content": "aa"}
    normalizer = {"type": "Sequence", "normalizers": [double] * 40}
    return _tokenizer(folder, _model(normalizer=normalizer), "a b " * 2000)


def tokenizer_words(folder: Path) -> str:
    """Words of any length, each held against all of its beginnings at every letter."""
    model = {
        "type": "WordPiece",
        "vocab": {"a": 0, "##a": 1, "[UNK]": 2},
        "unk_token": "[UNK]",
        "continuing_subword_prefix": "##",
        "max_input_chars_per_word": 10**9,
    }
    return _tokenizer(folder, _model(model=model), "a" * 40_000)


def tokenizer_size(folder: Path) -> str:
    """More words than any tokenizer has."""
    vocabulary = {f"w{i}": i for i in range(600_000)}
    model = {"type": "WordLevel", "vocab": vocabulary, "unk_token": "w0"}
    return _tokenizer(folder, _model(model=model), "a b " * 2000)


def sqlite_rows(folder: Path) -> str:
    """A view of a database of 8 KB that never ends."""
    return _database(
        folder,
        "CREATE VIEW t AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
        "SELECT i AS a, i % 2 AS y FROM n",
    )


def sqlite_blobs(folder: Path) -> str:
    """A view whose rows are of 100 MB each."""
    return _database(
        folder,
        "CREATE VIEW t AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n "
        "WHERE i < 1000) SELECT hex(zeroblob(50000000)) AS a, i % 2 AS y FROM n",
    )


def sqlite_time(folder: Path) -> str:
    """A view that counts without end before its first row."""
    return _database(
        folder,
        "CREATE VIEW t AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
        "SELECT count(*) AS a, 1 AS y FROM n",
        "reading: {most_seconds: 2}\n  ",
    )


def _database(folder: Path, view: str, extra: str = "") -> str:
    import sqlite3

    with sqlite3.connect(folder / "a.db") as database:
        database.execute(view)
    database.close()
    return f'{extra}sql: {{url: "sqlite:///a.db", query: SELECT * FROM t}}\n  target: y'


BOMBS: dict[str, Maker] = {
    name: maker
    for name, maker in globals().items()
    if callable(maker)
    and not name.startswith("_")
    and getattr(maker, "__annotations__", {}).get("folder") == "Path"
}
