"""Files elsewhere, fetched into the cache: S3, GCS, Azure, HTTP, Hugging Face, by fsspec."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, final

from trainwright.contract.sources import FRAME, Reading
from trainwright.core.errors import (
    DataMistake,
    MissingExtra,
    Place,
    Problem,
    TrainwrightError,
)
from trainwright.core.files import storage_errors
from trainwright.core.hashing import hash_value
from trainwright.data.cache import Tables, Uncached
from trainwright.data.delta import LOG
from trainwright.data.folders import Parts, is_pattern, mixed, parts_among
from trainwright.data.formats import EXPECTED, is_part, known_format
from trainwright.data.local import LocalFile
from trainwright.data.partitions import is_partition, with_partition
from trainwright.data.source_part import Source, SourcePart
from trainwright.data.unpacking import check_size
from trainwright.tracking.redaction import redact

_BLOCK = 2**20
_EXTRAS = {
    "s3": "s3",
    "s3a": "s3",
    "gs": "gs",
    "gcs": "gs",
    "az": "az",
    "abfs": "az",
    "abfss": "az",
    "http": "web",
    "https": "web",
    "hf": "hf",
}
_TAGS = {
    "s3": ("ETag",),
    "s3a": ("ETag",),
    "gs": ("md5Hash", "generation"),
    "gcs": ("md5Hash", "generation"),
    "az": ("etag",),
    "abfs": ("etag",),
    "abfss": ("etag",),
    "hf": ("blob_id",),
}
"""What says that an object is the same content. An ETag over HTTP does not: common servers make it
of the time and the size of a file."""


def is_remote(written: str) -> bool:
    """Whether a path is a URL of something else than a frame."""
    return "://" in written and not written.startswith(FRAME)


@final
@dataclass(frozen=True, slots=True)
class RemoteFiles:
    """A file, folder or pattern at a URL. Credentials come from the environment, as the libraries
    behind fsspec read them."""

    written: str
    path: str
    reading: Reading
    tables: Tables

    def parts(self) -> tuple[SourcePart, ...]:
        """The rows, from files that were fetched first.

        A file is fetched again each time, unless its store says by a tag that it is the same
        content (`_TAGS`): then it is taken from the cache.

        Raises:
            DataMistake: the place cannot be reached, or what is there cannot be read.
            MissingExtra: the package for such URLs is not installed.
        """
        # Holds what nobody can tell from an older version, until its rows are read.
        unkept = Uncached()
        with self._errors():
            files, root = self._open()
            found = self._listed(files, root)
            sources = tuple(self._local(files, name, url, unkept) for name, url in found)
        return Parts(sources, self.path).parts()

    def _open(self) -> tuple[Any, str]:
        scheme = self._scheme
        extra = _EXTRAS.get(scheme)
        try:
            from fsspec import get_filesystem_class
            from fsspec.core import url_to_fs

            try:
                get_filesystem_class(scheme.rpartition("::")[2])
            except ValueError:
                raise DataMistake(self._unknown()) from None
            files, root = url_to_fs(self.written, skip_instance_cache=True)
        except ImportError as error:
            fix = f"pip install 'trainwright[{extra}]'" if extra else "install the package it names"
            raise MissingExtra(
                Problem(
                    f"{scheme}:// needs a package that is not installed",
                    path=self.path,
                    found=redact(str(error))[:200],
                    fix=fix,
                )
            ) from None
        return files, str(root)

    @property
    def _scheme(self) -> str:
        return self.written.partition("://")[0]

    def _unknown(self) -> Problem:
        return Problem(
            f"{self._scheme}:// leads to no place that is known here",
            path=self.path,
            expected="s3://, gs://, az://, https:// or hf://, or a path of this machine",
            fix="correct the URL",
        )

    def _listed(self, files: Any, root: str) -> list[tuple[str, str]]:
        """The files by their names in the store, each with its URL."""
        if is_pattern(self.written):
            names = parts_among((str(name) for name in files.glob(root)), root)
        elif known_format(self.written):
            return [(root, self.written)]
        else:
            names = self._below(files, root)
        if not names:
            raise DataMistake(
                Problem(
                    "there is no file of data at this URL",
                    path=self.path,
                    found=redact(self.written),
                    expected=f"{EXPECTED}, a folder or a pattern of them",
                    fix="correct the URL",
                )
            )
        return [
            (name, name if "://" in name else f"{self._scheme}://{name.lstrip('/')}")
            for name in sorted(names)
        ]

    def _below(self, files: Any, folder: str) -> list[str]:
        """The files of data in a folder and in its partitions."""
        inside = {str(child["name"]): child["type"] for child in files.ls(folder, detail=True)}
        if any(_last_piece(name) == LOG for name in inside):
            raise DataMistake(self._delta())
        names = [name for name in inside if is_part(_last_piece(name))]
        folders = [
            name
            for name, kind in inside.items()
            if kind == "directory" and is_partition(_last_piece(name))
        ]
        if names and folders:
            said = [_last_piece(name) for name in (names[0], *folders)]
            raise DataMistake(mixed(said, redact(self.written), self.path))
        return names + [name for below in folders for name in self._below(files, below)]

    def _delta(self) -> Problem:
        return Problem(
            "Delta tables are read on this machine only: a folder of one also holds files that are "
            "no longer part of it",
            path=self.path,
            found=LOG,
            fix="copy the folder here, or write the version out as Parquet and name that",
            place=Place(redact(self.written)),
        )

    def _local(self, files: Any, name: str, url: str, unkept: Uncached) -> Source:
        known = dict(files.info(name))
        size, shown = known.get("size"), redact(url)
        check_size(int(size or 0), shown, self.reading)
        tag = self._tag(known)
        key = hash_value({"url": url, "tag": tag, "size": size})
        tables: Tables = self.tables if tag else unkept
        file = tables.download(key, shown, lambda target: self._fetch(files, name, shown, target))
        local = LocalFile(file, shown, self.path, self.reading, self.tables, told_by=url)
        return with_partition(local, url, self.path)

    def _fetch(self, files: Any, name: str, shown: str, target: Path) -> None:
        size = 0
        with storage_errors(f"keeping {shown}"), target.open("wb") as out:
            for block in self._blocks(files, name):
                size += len(block)
                check_size(size, shown, self.reading)
                out.write(block)

    def _blocks(self, files: Any, name: str) -> Iterator[bytes]:
        # An error of the network may be one of the operating system, as one of the disk is.
        with self._errors(), files.open(name, "rb") as stream:
            while block := stream.read(_BLOCK):
                yield block

    def _tag(self, known: dict[str, Any]) -> str:
        """What a store says of the content of an object; empty if that is nothing to rely on."""
        found = (str(known.get(name) or "") for name in _TAGS.get(self._scheme, ()))
        return next((tag for tag in found if tag), "")

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """The libraries behind fsspec raise errors of many kinds; all of them may pass by."""
        try:
            yield
        except TrainwrightError:
            raise
        except Exception as error:
            text = redact(str(error)).strip().splitlines()
            missing = isinstance(error, FileNotFoundError)
            raise DataMistake(
                Problem(
                    "there is no such file" if missing else "the place cannot be reached",
                    path=self.path,
                    found=f"{type(error).__name__}: {text[0][:200] if text else ''}",
                    fix="check the URL, the network, and the credentials in the environment",
                    place=Place(redact(self.written)),
                )
            ) from error


def _last_piece(name: str) -> str:
    """The name of a file without its folders and without what stands behind a `?`."""
    return PurePosixPath(name.partition("?")[0]).name
