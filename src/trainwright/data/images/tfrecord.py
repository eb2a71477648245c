"""TFRecord files of `tf.train.Example`, without TensorFlow.

A record is: its length (uint64, little-endian), the masked CRC-32C of these 8 bytes, the data, the
masked CRC-32C of the data. The mask is ((crc >> 15 | crc << 17) + 0xa282ead8) mod 2**32
(TensorFlow, `core/lib/io/record_writer.h` and `core/lib/hash/crc32c.h`). The data is the protocol
buffer of `tensorflow/core/example/example.proto`: a map from names to lists of bytes, floats or
whole numbers.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import final

import numpy as np
import numpy.typing as npt

from trainwright.core.errors import DataMistake, Place, Problem
from trainwright.core.limits import MOST_COLUMNS, MOST_IMAGE_BYTES
from trainwright.data.base.messages import nearest_option, some
from trainwright.data.images.raw_images import ImageRequest, Record
from trainwright.data.images.read_image_file import DAMAGED, BoundedReader, damaged, unpacked

_POLYNOMIAL = 0x82F63B78  # Castagnoli, reflected
_MASK = 0xA282EAD8
_BLOCK = 1024
_MOST_NAMES = 12
_SHOWN_BYTES = 40


def is_tfrecord(written: str) -> bool:
    """Whether a file's name says that it is one: `.tfrecord`, `.tfrecords`, also with a shard's
    number or `.gz` behind."""
    return ".tfrecord" in Path(written).name.lower()


@final
class TfRecords:
    """The examples of one file, in their order."""

    def __init__(self, asked: ImageRequest) -> None:
        self.written = asked.written
        self._asked = asked

    def records(self) -> Iterator[Record]:
        """Example by example."""
        for row, data in enumerate(self.examples()):
            try:
                example = read_example(data)
            except (ValueError, IndexError, struct.error) as error:
                raise damaged("TFRecord", f"record {row}: {error}", self._asked) from error
            yield self._record(row, example)

    def _record(self, row: int, example: dict[str, bytes]) -> Record:
        fields, labelled = self._asked.fields, self._asked.labelled
        wanted = {"image": fields.image, "group": fields.group}
        wanted |= {"label": fields.label} if labelled else {}
        for field, name in wanted.items():
            if name and name not in example:
                raise DataMistake(self._absent(row, field, name, list(example)))
        label = self._text(row, "label", example[fields.label]) if labelled else ""
        group = self._text(row, "group", example[fields.group]) if fields.group else ""
        name = example.get("image/filename", f"record {row}".encode()).decode(errors="replace")
        return Record(name, label, group, example[fields.image], Place(f"{self.written}:{row}"))

    def _text(self, row: int, field: str, data: bytes) -> str:
        try:
            return data.decode()
        except UnicodeDecodeError:
            # With a letter in the place of each wrong byte, two classes may look like one.
            raise DataMistake(
                Problem(
                    f"the {field} of record {row} is not UTF-8",
                    path=f"data.fields.{field}",
                    found=repr(data[:_SHOWN_BYTES]),
                    expected="UTF-8",
                    fix="write the file again with text in UTF-8, or name another feature",
                    place=Place(self.written),
                )
            ) from None

    def _absent(self, row: int, field: str, name: str, names: list[str]) -> Problem:
        near = nearest_option(name, names)
        return Problem(
            f"record {row} has no feature {name!r}",
            path=f"data.fields.{field}",
            found=some(names, _MOST_NAMES) if names else "nothing",
            expected=name,
            fix=f"did you mean {near!r}?" if near else f"write its name to data.fields.{field}",
            place=Place(self.written),
        )

    def examples(self) -> Iterator[bytes]:
        """The bytes of each example."""
        try:
            with unpacked(self._asked, MOST_IMAGE_BYTES) as stream:
                row = 0
                while header := stream.read(12):
                    yield _frame(stream, header, row)
                    row += 1
        except (ValueError, *DAMAGED) as error:
            raise damaged("TFRecord", str(error), self._asked) from error


def _frame(stream: BoundedReader, header: bytes, row: int) -> bytes:
    if len(header) < 12:
        raise ValueError(f"record {row} is cut off")
    length, check = struct.unpack("<QI", header)
    if masked_crc32c(header[:8]) != check:
        raise ValueError(f"the length of record {row} does not fit its checksum")
    data = stream.read(length)
    tail = stream.read(4)
    if len(data) < length or len(tail) < 4:
        raise ValueError(f"record {row} is cut off")
    if masked_crc32c(data) != struct.unpack("<I", tail)[0]:
        raise ValueError(f"record {row} does not fit its checksum")
    return data


def masked_crc32c(data: bytes) -> int:
    """The checksum that TFRecord files hold."""
    crc = crc32c(data)
    return (((crc >> 15) | (crc << 17)) + _MASK) & 0xFFFFFFFF


def crc32c(data: bytes) -> int:
    """CRC-32C (RFC 3720, appendix B.4).

    A CRC without its first and last inversion is linear in the message, so that of a block is the
    exclusive or of what each byte at its place contributes; what came before counts as if it stood
    in the first four bytes of the block.
    """
    table = _contributions()
    crc = 0xFFFFFFFF
    for start in range(0, len(data), _BLOCK):
        block = np.frombuffer(data[start : start + _BLOCK], np.uint8)
        # What the register holds moves through blocks that are shorter than itself.
        carried = np.frombuffer(struct.pack("<I", crc), np.uint8)
        mixed = block.copy()
        mixed[:4] ^= carried[: len(block)]
        crc = int(np.bitwise_xor.reduce(table[np.arange(len(block))[::-1], mixed]))
        if len(block) < 4:
            crc ^= int.from_bytes(carried[len(block) :].tobytes(), "little")
    return crc ^ 0xFFFFFFFF


@cache
def _contributions() -> npt.NDArray[np.uint32]:
    """What a byte contributes that has so many others behind it in its block: [1024, 256]."""
    first = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        first = np.where(first & 1, (first >> 1) ^ np.uint32(_POLYNOMIAL), first >> 1)
    table = np.empty((_BLOCK, 256), np.uint32)
    table[0] = first
    for place in range(1, _BLOCK):
        table[place] = first[table[place - 1] & 0xFF] ^ (table[place - 1] >> 8)
    return table


def read_example(data: bytes) -> dict[str, bytes]:
    """The features of a `tf.train.Example`, each its first value; numbers as text.

    Raises:
        ValueError, IndexError, struct.error: it is none.
    """
    found: dict[str, bytes] = {}
    for number, features in _fields(data):
        if number != 1:
            continue
        for count, (entry_number, entry) in enumerate(_fields(_message(features))):
            if count >= MOST_COLUMNS:
                raise ValueError(f"more than {MOST_COLUMNS:,} features")
            if entry_number != 1:
                continue
            entry_fields = dict(_fields(_message(entry)))
            name = _message(entry_fields.get(1, b"")).decode("utf-8")
            value = _first_value(_message(entry_fields.get(2, b"")))
            if value is not None:
                found[name] = value
    return found


def _first_value(feature: bytes) -> bytes | None:
    """The first value of a bytes_list (1), float_list (2) or int64_list (3)."""
    for number, values in _fields(feature):
        for inner, value in _fields(_message(values)):
            if inner != 1:
                continue
            match number:
                case 1:
                    return _message(value)
                case 2:
                    # Packed, or a single 32-bit number.
                    packed = value if isinstance(value, bytes) else struct.pack("<I", value)
                    return _number(struct.unpack_from("<f", packed)[0]) if packed else None
                case 3:
                    if isinstance(value, bytes):
                        if not value:
                            return None
                        value, _ = _varint(value, 0)
                    return str(value - 2**64 if value >= 2**63 else value).encode()
    return None


def _number(value: float) -> bytes:
    """A 32-bit number in the fewest digits that no other one has; whole ones without a point."""
    return np.format_float_positional(np.float32(value), trim="-").encode()


def _fields(data: bytes) -> Iterator[tuple[int, bytes | int]]:
    """The fields of a protocol buffer: number and value (encoding.md of protobuf)."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        match key & 7:
            case 0:
                value, at = _varint(data, at)
                yield key >> 3, value
            case 1 | 5 as width:
                size = 8 if width == 1 else 4
                if at + size > len(data):
                    raise ValueError("a number is cut off")
                yield key >> 3, int.from_bytes(data[at : at + size], "little")
                at += size
            case 2:
                size, at = _varint(data, at)
                if at + size > len(data):
                    raise ValueError("a field claims more bytes than there are")
                yield key >> 3, data[at : at + size]
                at += size
            case other:
                raise ValueError(f"nothing is known of wire type {other}")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise ValueError("a number has no end")


def _message(value: bytes | int) -> bytes:
    match value:
        case bytes():
            return value
        case int():
            raise ValueError("a number stands where a message should")
