"""WebDataset shards: tar files in which the members of one sample share a key.

The key of `n01/dog.17.jpg` is `n01/dog` and its extension `17.jpg`: what stands before and after
the first dot of the last part of the name (the convention of the WebDataset format). Members are
read where they stand; nothing is ever unpacked to the disk.
"""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator
from typing import BinaryIO, Self, cast, final

from trainwright.core.errors import DataMistake, Place, Problem
from trainwright.core.limits import MOST_IMAGE_BYTES, MOST_TAR_HEADER_BYTES
from trainwright.data.images.decode import SUFFIXES, ImageFault
from trainwright.data.images.raw_images import ImageRequest, Record
from trainwright.data.images.read_image_file import (
    DAMAGED,
    BoundedReader,
    damaged,
    too_large,
    unpacked,
)

_MOST_TEXT = 2**20
_SHOWN_BYTES = 40
_SLACK = 2**20
_ABOUT_A_MEMBER = (
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
)
"""The kinds of headers that describe another member, in bytes of their own."""


def is_tar(written: str) -> bool:
    """Whether a file's name says that it is a tar shard."""
    return written.lower().endswith((".tar", ".tar.gz", ".tgz"))


@final
class _Strict(tarfile.TarInfo):
    """A header that must be whole. Python's reader takes any other behind the first member for the
    end of the archive, and the members behind it are lost without a word."""

    @classmethod
    def fromtarfile(cls, archive: tarfile.TarFile) -> Self:
        """The next header.

        Raises:
            tarfile.ReadError: it is cut off or damaged, or there is no end of the archive.
        """
        try:
            return super().fromtarfile(archive)
        except _LongHeader as error:
            raise tarfile.ReadError(str(error)) from error
        except tarfile.EOFHeaderError:  # type: ignore[attr-defined]
            raise
        except tarfile.HeaderError as error:
            raise tarfile.ReadError(f"at byte {archive.offset:,}: {error}") from error

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        """A header of 512 bytes, before what belongs to it is read.

        Raises:
            _LongHeader: that is more than any tar file says of a member.
        """
        found = super().frombuf(buf, encoding, errors)
        if found.type in _ABOUT_A_MEMBER and found.size > MOST_TAR_HEADER_BYTES:
            raise _LongHeader(
                f"a header of {found.size:,} bytes, of which {MOST_TAR_HEADER_BYTES:,} are allowed"
            )
        return found


class _LongHeader(Exception):
    """A header claims more than a tar file says of a member."""


@final
class TarShard:
    """The samples of one shard, in their order."""

    def __init__(self, asked: ImageRequest) -> None:
        self.written = asked.written
        self._asked = asked

    def records(self) -> Iterator[Record]:
        """Sample by sample; one without an image (a text, say) is passed over."""
        sample: dict[str, bytes | ImageFault] = {}
        current = ""
        held = 0
        for key, extension, data in self._members():
            if key != current and sample:
                yield from self._record(current, sample)
                sample, held = {}, 0
            held += 0 if isinstance(data, ImageFault) else len(data)
            if held > MOST_IMAGE_BYTES:
                raise self._mistake(
                    f"the members of the key {key!r} are too large together",
                    f"{held:,} bytes",
                    f"at most {MOST_IMAGE_BYTES:,}",
                )
            if extension in sample:
                raise self._mistake(
                    f"the key {key!r} has two members .{extension}", key, "keys that differ"
                )
            current = key
            sample[extension] = data
        if sample:
            yield from self._record(current, sample)

    def _record(self, key: str, sample: dict[str, bytes | ImageFault]) -> Iterator[Record]:
        fields = self._asked.fields
        images = [name for name in sample if _is_image(name)]
        if not images:
            return
        image = self._image(key, images)
        told = self._told(key, sample)
        label = self._class_of(key, sample.get("cls")) or told.get(fields.label, "")
        if self._asked.labelled and not (label or self._asked.may_be_empty):
            raise self._mistake(
                f"the sample {key!r} has no label",
                ", ".join(f".{name}" for name in sample),
                f".cls, or .json with the key {fields.label!r}",
            )
        group = told.get(fields.group, "") if fields.group else ""
        if fields.group and not group:
            raise self._mistake(
                f"the sample {key!r} has no group",
                ", ".join(told) or "no .json",
                f".json with the key {fields.group!r}",
            )
        yield Record(key, label, group, sample[image], Place(f"{self.written}/{key}"))

    def _image(self, key: str, images: list[str]) -> str:
        """The extension of a sample's image: the one that is named, or the only one."""
        wanted = self._asked.fields.image.lower()
        if wanted in images:
            return wanted
        found = ", ".join(f".{name}" for name in images)
        if _is_image(wanted):
            raise self._mistake(f"the sample {key!r} has no .{wanted}", found, f".{wanted}")
        if len(images) > 1:
            raise DataMistake(
                Problem(
                    f"the sample {key!r} has {len(images)} images",
                    path="data.fields.image",
                    found=found,
                    expected="one, or the extension of the one that is meant",
                    fix=f"set data.fields.image, for example {images[0]}",
                    place=Place(self.written),
                )
            )
        return images[0]

    def _class_of(self, key: str, data: bytes | ImageFault | None) -> str:
        if not isinstance(data, bytes) or len(data) > _MOST_TEXT:
            return ""
        try:
            return data.decode().strip()
        except UnicodeDecodeError as error:
            # With a letter in the place of each wrong byte, two classes may look like one.
            found = repr(data[:_SHOWN_BYTES])
            raise self._mistake(f"the .cls of {key!r} is not UTF-8", found, "UTF-8") from error

    def _told(self, key: str, sample: dict[str, bytes | ImageFault]) -> dict[str, str]:
        data = sample.get("json")
        if not isinstance(data, bytes):
            return {}
        try:
            read = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise self._mistake(
                f"the .json of {key!r} cannot be read", str(error), "one JSON object"
            ) from error
        if not isinstance(read, dict):
            raise self._mistake(f"the .json of {key!r} is no object", type(read).__name__, "{...}")
        return {str(k): str(v) for k, v in read.items() if isinstance(v, str | int | float)}

    def _members(self) -> Iterator[tuple[str, str, bytes | ImageFault]]:
        """Key, extension and bytes of each regular member."""
        try:
            with (
                unpacked(self._asked, MOST_IMAGE_BYTES + _SLACK) as stream,
                tarfile.open(fileobj=cast(BinaryIO, stream), mode="r:", tarinfo=_Strict) as archive,
            ):
                for member in archive:
                    # Or the list of members grows with the shard.
                    archive.members = []  # type: ignore[attr-defined]
                    if member.isdir():
                        continue
                    self._check(member)
                    name = member.name.removeprefix("./")
                    folder, slash, last = name.rpartition("/")
                    stem, _, extension = last.partition(".")
                    yield f"{folder}{slash}{stem}", extension.lower(), _data(archive, member)
                _check_end(stream)
        except (tarfile.TarError, ValueError, *DAMAGED) as error:
            raise damaged("tar", str(error), self._asked) from error

    def _check(self, member: tarfile.TarInfo) -> None:
        parts = member.name.split("/")
        if member.name.startswith("/") or ".." in parts or "\\" in member.name:
            raise self._mistake(
                "a member's name leads out of its folder", member.name[:200], "a plain name"
            )
        if not member.isreg() or member.issparse():
            kind = "a link" if member.issym() or member.islnk() else "a device, pipe or sparse file"
            raise self._mistake(
                f"the member {member.name[:200]!r} is no plain file", kind, "files and folders"
            )

    def _mistake(self, message: str, found: str, expected: str) -> DataMistake:
        return DataMistake(
            Problem(
                message,
                path=self._asked.path,
                found=found,
                expected=expected,
                fix="write the shard again without it",
                place=Place(self.written),
            )
        )


def _is_image(extension: str) -> bool:
    return f".{extension.rpartition('.')[2]}" in SUFFIXES


def _check_end(stream: BoundedReader) -> None:
    """Hold what stands behind the end of the archive to its zeros: a block of a shard that was lost
    looks like its end."""
    while block := stream.read(_SLACK):
        if any(block):
            raise tarfile.ReadError("there is more behind the end of the archive")


def _data(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes | ImageFault:
    if member.size > MOST_IMAGE_BYTES:
        return too_large(member.size)
    stream = archive.extractfile(member)
    assert stream is not None, "a regular file has bytes"
    return stream.read()
