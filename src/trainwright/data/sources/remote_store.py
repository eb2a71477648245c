"""Remote stores fetched into the cache by fsspec: S3, GCS, Azure, HTTP, Hugging Face."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar, final

from trainwright.contract.sections.data.sources import FRAME, Reading
from trainwright.core import limits
from trainwright.core.errors import (
    DataMistake,
    MissingExtra,
    Place,
    Problem,
    TrainwrightError,
)
from trainwright.core.files import hash_value, storage_errors
from trainwright.core.redaction import hide_in_urls, redact
from trainwright.data.formats.encodings import check_size
from trainwright.data.sources.cache import Tables, Uncached, cache_file

T = TypeVar("T")

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
_WITHOUT_PACKAGE = frozenset({"file", "memory"})
_GONE = (404, 410)
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
    """Is a path a remote URL?"""
    return "://" in written and not written.startswith(FRAME)


@final
class RemotePlace:
    """The place that a URL leads to. Credentials come from the environment, as the libraries behind
    fsspec read them. Names are those of the store; `root` is that of the URL.

    Args:
        written: the URL.
        path: the contract path to blame.
        reading: how large a file may be.
        tables: where fetched files are kept.

    Raises:
        DataMistake: the URL leads to no place that is known.
        MissingExtra: the package for such URLs is not installed.
    """

    def __init__(self, written: str, path: str, reading: Reading, tables: Tables) -> None:
        self._written = written
        self._path = path
        self._reading = reading
        self._tables = tables
        # Holds files without a version tag for the lifetime of this object.
        self._unkept = Uncached()
        self._fetched: dict[str, Path] = {}
        with self.errors():
            self._files, self.root = self._open()

    def matching(self) -> list[str]:
        """The files that a pattern fits."""
        return sorted(str(name) for name in self._files.glob(self.root))

    def inside(self, folder: str) -> dict[str, str]:
        """What is in a folder: `file` or `directory`, by name."""
        found = self._files.ls(folder, detail=True)
        return {str(child["name"]): str(child["type"]) for child in found}

    def below(self) -> list[str]:
        """The files in a folder and in the folders in it."""
        return sorted(str(name) for name in self._files.find(self.root))

    def url(self, name: str) -> str:
        """A name with its scheme."""
        return name if "://" in name else f"{self._scheme}://{name.lstrip('/')}"

    def fetched(self, name: str, url: str) -> Path:
        """The file `name` on this machine; `url` is what the contract calls it.

        It is fetched once in the life of this object, and not at all where its store says by a tag
        (`_TAGS`) that it is the content which the cache has.
        """
        if name not in self._fetched:
            known = dict(self._answered(lambda: self._files.info(name)))
            size, shown = known.get("size"), redact(url)
            check_size(int(size or 0), shown, self._reading)
            tag = self._tag(known)
            key = hash_value({"url": url, "tag": tag, "size": size})
            tables: Tables = self._tables if tag else self._unkept
            self._fetched[name] = cache_file(
                tables, key, shown, lambda target: self._fetch(name, shown, target)
            )
        return self._fetched[name]

    @contextmanager
    def errors(self) -> Iterator[None]:
        """The libraries behind fsspec raise errors of many kinds; all of them may pass by."""
        try:
            yield
        except TrainwrightError:
            raise
        except Exception as error:
            refusal = _refusal(error)
            missing = isinstance(error, FileNotFoundError) and refusal is None
            told = refusal or error
            text = redact(str(told)).strip().splitlines()
            raise DataMistake(
                Problem(
                    "there is no such file" if missing else "the place cannot be reached",
                    path=self._path,
                    found=f"{type(told).__name__}: {text[0][:200] if text else ''}",
                    fix="check the URL, the network, and the credentials in the environment",
                    place=Place(redact(self._written)),
                )
            ) from error

    @property
    def _scheme(self) -> str:
        return self._written.partition("://")[0]

    def _open(self) -> tuple[Any, str]:
        scheme = self._scheme
        extra = _EXTRAS.get(scheme)
        if extra is None and scheme not in _WITHOUT_PACKAGE:
            # Others reach further than rows: into shells, other processes, chains of their own.
            raise DataMistake(self._unknown())
        try:
            from fsspec.core import url_to_fs

            options = _web_options() if self._is_web else {}
            files, root = url_to_fs(self._written, skip_instance_cache=True, **options)
        except ImportError as error:
            fix = f"pip install 'trainwright[{extra}]'" if extra else "install the package it names"
            raise MissingExtra(
                Problem(
                    f"{scheme}:// needs a package that is not installed",
                    path=self._path,
                    found=redact(str(error))[:200],
                    fix=fix,
                )
            ) from None
        return files, str(root)

    def _unknown(self) -> Problem:
        return Problem(
            f"{hide_in_urls(self._scheme)[:40]}:// leads to no place that is known here",
            path=self._path,
            expected="s3://, gs://, az://, https://, hf:// or file://, or a path of this machine",
            fix="correct the URL",
        )

    def _fetch(self, name: str, shown: str, target: Path) -> None:
        size = 0
        with storage_errors(f"keeping {shown}"), target.open("wb") as out:
            for block in self._blocks(name):
                size += len(block)
                check_size(size, shown, self._reading)
                out.write(block)

    def _blocks(self, name: str) -> Iterator[bytes]:
        # An error of the network may be one of the operating system, as one of the disk is.
        # Without blocks of its own a web server sends the file in one answer, as it comes.
        options = {"block_size": 0} if self._is_web else {}
        with (
            self.errors(),
            self._answered(lambda: self._files.open(name, "rb", **options)) as stream,
        ):
            since, got = time.monotonic(), 0
            while block := stream.read(_BLOCK):
                yield block
                got += len(block)
                if self._is_web and (passed := time.monotonic() - since) > limits.HTTP_RATE_SECONDS:
                    _check_rate(got, passed)
                    since, got = time.monotonic(), 0

    def _answered(self, ask: Callable[[], T]) -> T:
        """What a store says first. Web servers may be anyone's; the libraries of the other stores
        have deadlines of their own."""
        if not self._is_web:
            return ask()
        from trainwright.core.deadline import Overrun, call_within

        try:
            return call_within(limits.HTTP_ANSWER_SECONDS, ask)
        except Overrun:
            raise TimeoutError(
                f"the server has not answered within {limits.HTTP_ANSWER_SECONDS} seconds"
            ) from None

    @property
    def _is_web(self) -> bool:
        return self._scheme in ("http", "https")

    def _tag(self, known: dict[str, Any]) -> str:
        """What a store says of the content of an object; empty if that is nothing to rely on."""
        found = (str(known.get(name) or "") for name in _TAGS.get(self._scheme, ()))
        return next((tag for tag in found if tag), "")


def _web_options() -> dict[str, Any]:
    """How long web servers are waited for. The default of aiohttp ends every download after five
    minutes, and lets a server that sends nothing take all of them."""
    from aiohttp import ClientTimeout

    timeout = ClientTimeout(
        total=None,
        sock_connect=limits.HTTP_CONNECT_SECONDS,
        sock_read=limits.HTTP_SILENT_SECONDS,
    )
    return {"client_kwargs": {"timeout": timeout}}


def _check_rate(got: int, seconds: float) -> None:
    if got < limits.HTTP_LEAST_BYTES_PER_SECOND * seconds:
        raise TimeoutError(
            f"the server sent {got:,} bytes in {seconds:.0f} seconds; at least "
            f"{limits.HTTP_LEAST_BYTES_PER_SECOND:,} a second are waited for"
        )


def _refusal(error: Exception) -> BaseException | None:
    """What stands behind a file that is said to be missing: fsspec says so of whatever fails over
    HTTP, a server that is down or one that answers 403 too."""
    cause = error.__cause__
    if not isinstance(error, FileNotFoundError) or isinstance(cause, FileNotFoundError):
        return None
    if status := getattr(cause, "status", 0):
        return None if status in _GONE else cause
    return cause if isinstance(cause, OSError) else None
