"""Tar shards that are not whole: every sample that was written comes, or a mistake."""

from __future__ import annotations

import tarfile
from pathlib import Path
from unittest import mock

import pytest

from made_pictures import encoded, picture, tar_bytes
from trainwright.contract.sections.data.images import ImageFields
from trainwright.core.errors import DataMistake
from trainwright.data.images import webdataset
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


@pytest.mark.row("F-47")
@pytest.mark.parametrize(
    ("name", "kind", "says"),
    [
        ("../x.png", tarfile.REGTYPE, "leads out of its folder"),
        ("a/../../x.png", tarfile.REGTYPE, "leads out of its folder"),
        ("/x.png", tarfile.REGTYPE, "leads out of its folder"),
        ("a\\x.png", tarfile.REGTYPE, "leads out of its folder"),
        ("x.png", tarfile.SYMTYPE, "is no plain file"),
        ("x.png", tarfile.LNKTYPE, "is no plain file"),
        ("x.png", tarfile.CHRTYPE, "is no plain file"),
        ("x.png", tarfile.BLKTYPE, "is no plain file"),
        ("x.png", tarfile.FIFOTYPE, "is no plain file"),
        ("x.png", tarfile.GNUTYPE_SPARSE, "is no plain file"),
    ],
)
def test_members_are_plain_files_inside_the_shard(
    name: str, kind: bytes, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Judged by what their headers say; no shard holds them here."""
    member = tarfile.TarInfo(name)
    member.type = kind
    member.sparse = [(0, 1)] if kind == tarfile.GNUTYPE_SPARSE else None  # type: ignore[assignment]
    archive = mock.MagicMock()
    archive.__enter__().__iter__.return_value = iter([member])
    monkeypatch.setattr(tarfile, "open", lambda **_: archive)
    with pytest.raises(DataMistake, match=says):
        images(tmp_path, SHARD)


@pytest.mark.row("F-63")
@pytest.mark.parametrize(
    "kind",
    [
        tarfile.XHDTYPE,
        tarfile.XGLTYPE,
        tarfile.SOLARIS_XHDTYPE,
        tarfile.GNUTYPE_LONGNAME,
        tarfile.GNUTYPE_LONGLINK,
    ],
)
def test_a_header_about_a_member_has_a_limit(
    kind: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    about = tarfile.TarInfo("about")
    about.type, about.size = kind, 200
    monkeypatch.setattr(webdataset, "MOST_TAR_HEADER_BYTES", 100)
    with pytest.raises(DataMistake) as caught:
        images(tmp_path, about.tobuf() + b"n" * 512 + SHARD)
    assert "a header of 200 bytes, of which 100 are allowed" in caught.value.problems[0].found
