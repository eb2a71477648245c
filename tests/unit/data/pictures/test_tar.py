"""Tar shards that are not whole: every sample that was written comes, or a mistake."""

from __future__ import annotations

from pathlib import Path

import pytest

from made_pictures import encoded, picture, tar_bytes
from trainwright.contract.sections.data.images import ImageFields
from trainwright.core.errors import DataMistake
from trainwright.data.images.raw_images import ImageRequest
from trainwright.data.images.webdataset import TarShard

SAMPLES = {f"{row:02d}": encoded(picture(row)) for row in range(6)}
SHARD = tar_bytes(
    [
        (f"{key}.{extension}", data)
        for key, png in SAMPLES.items()
        for extension, data in (("png", png), ("cls", b"1"))
    ]
)
HEADERS = [at for at in range(0, len(SHARD), 512) if SHARD[at + 257 : at + 262] == b"ustar"]
END = max(at for at in HEADERS) + 1024


def images(folder: Path, data: bytes, **fields: str) -> dict[str, object]:
    file = folder / "a.tar"
    file.write_bytes(data)
    asked = ImageRequest(file, "a.tar", ImageFields(**fields), "data.path", labelled=True)
    return {record.name: record.data for record in TarShard(asked).records()}


def test_a_whole_shard_has_all_of_its_samples(tmp_path: Path) -> None:
    assert images(tmp_path, SHARD) == SAMPLES
    assert len(HEADERS) == 2 * len(SAMPLES)


def test_a_sample_with_two_images_needs_the_extension_of_one(tmp_path: Path) -> None:
    left, right = SAMPLES["00"], SAMPLES["01"]
    members = [("0.left.PNG", left), ("0.right.jpg", right), ("0.cls", b"1")]
    with pytest.raises(DataMistake) as caught:
        images(tmp_path, tar_bytes(members))
    (problem,) = caught.value.problems
    assert problem.path == "data.fields.image"
    assert problem.found == ".left.png, .right.jpg"
    assert images(tmp_path, tar_bytes(members), image="left.png") == {"0": left}
    assert images(tmp_path, tar_bytes(members), image="right.jpg") == {"0": right}
    with pytest.raises(DataMistake, match=r"has no \.jpg"):
        images(tmp_path, tar_bytes(members), image="jpg")


def test_a_class_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    """Two classes of one length would else have one name: `\ufffd`."""
    members = [("0.png", SAMPLES["00"]), ("0.cls", "\xe9".encode("latin-1"))]
    with pytest.raises(DataMistake, match=r"the \.cls of '0' is not UTF-8") as caught:
        images(tmp_path, tar_bytes(members))
    assert caught.value.problems[0].found == r"b'\xe9'"


@pytest.mark.parametrize("more", [0, 1, 300])
def test_a_shard_that_is_cut_off_is_refused_wherever_it_was_cut(tmp_path: Path, more: int) -> None:
    """Up to its end, which is a block of zeros."""
    for at in range(512, END + 1, 512):
        with pytest.raises(DataMistake, match=r"cut off|no image"):
            images(tmp_path, SHARD[: at + more] if at < END else SHARD[:END])
    assert images(tmp_path, SHARD[: END + 512]) == SAMPLES


def test_a_flipped_byte_of_a_header_loses_no_sample(tmp_path: Path) -> None:
    """A name is part of the checksum; what is behind the header's fields is not read at all."""
    for header in HEADERS[:3] + HEADERS[-1:]:
        for place in range(512):
            data = bytearray(SHARD)
            data[header + place] ^= 0x11
            try:
                found = images(tmp_path, bytes(data))
            except DataMistake:
                continue
            assert found == SAMPLES, (header, place)


def test_a_block_that_was_lost_is_not_the_end(tmp_path: Path) -> None:
    for header in HEADERS[1:]:
        data = SHARD[:header] + bytes(512) + SHARD[header + 512 :]
        with pytest.raises(DataMistake, match="tar file is damaged"):
            images(tmp_path, data)
