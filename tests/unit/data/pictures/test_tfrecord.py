"""TFRecords are read by their own description, checksums and all."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from made_pictures import encoded, example, frame, picture, write_tfrecord
from trainwright.contract.sections.data.images import Decoding, ImageData, ImageFields
from trainwright.core.errors import DataMistake
from trainwright.data.images.prepare_images import read_images
from trainwright.data.images.raw_images import RawImages
from trainwright.data.images.tfrecord import crc32c, read_example

FIELDS = ImageFields(image="image/encoded", label="image/class/label")


def read(folder: Path, path: str, fields: ImageFields = FIELDS) -> RawImages:
    section = ImageData(kind="images", path=path, decoding=Decoding(cache="cache"), fields=fields)
    return read_images(section, folder)


def test_the_checksum_is_that_of_the_standard() -> None:
    """RFC 3720, appendix B.4, and the check value of the catalogue of CRCs."""
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(bytes(32)) == 0x8A9136AA
    assert crc32c(b"\xff" * 32) == 0x62A8AB43
    assert crc32c(bytes(range(32))) == 0x46DD794E
    table = [0] * 256
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
        table[byte] = value
    data = np.random.default_rng(0).bytes(3000)
    for length in (0, 1, 2, 3, 4, 5, 1023, 1024, 1025, 1026, 1027, 2049, 3000):
        crc = 0xFFFFFFFF
        for byte in data[:length]:
            crc = table[(crc ^ byte) & 0xFF] ^ (crc >> 8)
        assert crc32c(data[:length]) == crc ^ 0xFFFFFFFF, length


def test_an_example_is_read_as_it_was_written() -> None:
    written = {"a": b"\x00\xff", "b": 7, "c": -3, "d": 2.5, "e": b""}
    read_back = read_example(example(written))
    assert read_back == {"a": b"\x00\xff", "b": b"7", "c": b"-3", "d": b"2.5", "e": b""}


def test_a_number_of_an_example_keeps_all_of_its_digits() -> None:
    """As labels and groups they would else be one."""
    written = {"a": 16_777_215.0, "b": 1_234_567.0, "c": 0.1, "d": 3.0, "e": -0.5, "f": 1.0000001}
    read_back = {name: text.decode() for name, text in read_example(example(written)).items()}
    assert read_back == {
        "a": "16777215",
        "b": "1234567",
        "c": "0.1",
        "d": "3",
        "e": "-0.5",
        "f": "1.0000001",
    }


@pytest.mark.parametrize("place", [3, 9, 40, -2])
def test_a_flipped_bit_of_a_tfrecord_is_found(tmp_path: Path, place: int) -> None:
    file = write_tfrecord(tmp_path / "a.tfrecord", 3)
    data = bytearray(file.read_bytes())
    data[place] ^= 1
    file.write_bytes(bytes(data))
    with pytest.raises(DataMistake, match="TFRecord"):
        read(tmp_path, "a.tfrecord")


def test_a_tfrecord_without_the_features_says_which_it_has(tmp_path: Path) -> None:
    write_tfrecord(tmp_path / "a.tfrecord", 3)
    with pytest.raises(DataMistake) as caught:
        read(tmp_path, "a.tfrecord", fields=ImageFields())
    (problem,) = caught.value.problems
    assert "image/encoded" in problem.found
    (tmp_path / "b.tfrecord").write_bytes(frame(b"x")[:-3] + b"y" * 8)
    with pytest.raises(DataMistake, match=r"cut off|checksum"):
        read(tmp_path, "b.tfrecord")


@pytest.mark.parametrize("field", ["label", "group"])
def test_a_label_or_group_that_is_not_utf_8_is_refused(tmp_path: Path, field: str) -> None:
    """Two of one length would else be one."""
    row = {"image": encoded(picture(0)), "label": b"a", "group": b"b"} | {field: b"\xe9"}
    (tmp_path / "a.tfrecord").write_bytes(frame(example(row)))
    fields = ImageFields(image="image", label="label", group="group")
    with pytest.raises(DataMistake, match=f"the {field} of record 0 is not UTF-8") as caught:
        read(tmp_path, "a.tfrecord", fields)
    assert caught.value.problems[0].path == f"data.fields.{field}"
