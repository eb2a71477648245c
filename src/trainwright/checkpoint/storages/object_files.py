"""Objects under a prefix of S3, GCS, Azure and other fsspec file systems."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, final

from trainwright.checkpoint.strict_json import Damaged
from trainwright.core.errors import MissingExtra, Mistake, Problem, StorageFailed
from trainwright.core.redaction import redact

_SCHEMES = ("s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "file", "memory")


@final
class ObjectFiles:
    """Objects under one prefix. Each is written in one request and never renamed. Credentials come
    from the environment, as the libraries read them.

    Args:
        files: an fsspec file system that caches no listings; see `open_system`.
        root: the prefix, in the notation of the file system.
    """

    def __init__(self, files: Any, root: str) -> None:
        self._files = files
        self._root = root.rstrip("/")

    def __str__(self) -> str:
        return redact(self._files.unstrip_protocol(self._root))

    def path(self, *parts: str) -> str:
        """Path of an object, in the notation of the file system."""
        return "/".join((self._root, *parts))

    def listing(self, *below: str) -> dict[str, int]:
        """Size of every object under the prefix by relative name, listed anew."""
        self._files.invalidate_cache()
        top = self.path(*below)
        try:
            found = self._files.find(top, detail=True)
        except FileNotFoundError:
            return {}
        before = len(top) + 1
        return {str(path)[before:]: int(about.get("size") or 0) for path, about in found.items()}

    def folders(self) -> list[str]:
        """Names one level below the prefix."""
        self._files.invalidate_cache()
        try:
            found = self._files.ls(self._root, detail=False)
        except (FileNotFoundError, NotADirectoryError):
            return []
        return sorted(str(path).rstrip("/").rpartition("/")[2] for path in found)

    def read(self, path: str, limit_bytes: int) -> bytes:
        """Bytes of an object.

        Raises:
            Damaged: missing, or larger than the limit.
        """
        name = path.rpartition("/")[2]
        try:
            about = self._files.info(path)
            size = int(about["size"])
            if about.get("type") == "directory":
                raise Damaged(f"{name}: a folder")
            if size > limit_bytes:
                raise Damaged(f"{name}: {size} bytes are more than {limit_bytes}")
            # On a mounted disk it may be a device or a pipe, which have no size and never end.
            return bytes(self._files.cat_file(path, start=0, end=size)) if size else b""
        except FileNotFoundError:
            raise Damaged(f"{name}: there is no such object") from None

    def put(self, path: str, data: bytes) -> None:
        """Write an object in one request."""
        self._files.pipe_file(path, data)
        self.check_size(path, len(data))

    def check_size(self, path: str, size: int) -> None:
        """Check that an object is stored in full.

        Raises:
            OSError: it is not.
        """
        self._files.invalidate_cache()
        found = int(self._files.info(path)["size"])
        if found != size:
            raise OSError(f"{path} has {found} bytes instead of {size}")

    def remove(self, path: str) -> None:
        """Remove an object, if it exists."""
        with contextlib.suppress(FileNotFoundError):
            self._files.rm_file(path)

    def remove_empty(self, folder: str) -> None:
        """Remove a folder that has become empty. Object stores have none, a mounted disk does."""
        if "file" in self._files.protocol:
            with contextlib.suppress(OSError):
                self._files.rmdir(self.path(folder))

    @contextlib.contextmanager
    def errors(self, doing: str) -> Iterator[None]:
        """The libraries behind fsspec raise errors of many types; all are converted."""
        try:
            yield
        except (StorageFailed, Damaged, Mistake, AssertionError):
            raise
        except Exception as error:
            text = redact(str(error)) or type(error).__name__
            raise StorageFailed(f"{doing} in {self}: {text}") from error


def open_system(url: str, path: str = "training.checkpointing.remote") -> tuple[Any, str]:
    """fsspec file system of a URL such as `s3://bucket/folder`, without cached listings, and the
    path in it. Errors in the URL are reported at `path`.

    Raises:
        Mistake: unknown URL scheme. MissingExtra: the package for it is not installed.
    """
    from fsspec.core import url_to_fs

    scheme = url.partition("://")[0]
    options: dict[str, Any] = {"use_listings_cache": False, "skip_instance_cache": True}
    if scheme not in _SCHEMES:
        raise Mistake(
            Problem(
                f"{redact(scheme)[:40]}:// is not a supported storage",
                path=path,
                expected=f"one of: {', '.join(f'{known}://' for known in _SCHEMES)}",
                fix="for example s3://bucket/folder or file:///folder",
            )
        )
    if scheme == "file":
        # For a mounted folder, a file name needs its parent folder to exist.
        options["auto_mkdir"] = True
    try:
        files, root = url_to_fs(url, **options)
    except ImportError as error:
        raise MissingExtra(
            Problem(
                f"{scheme}:// needs a package that is not installed",
                path=path,
                found=redact(str(error)),
                fix='pip install "trainwright[s3]" for s3, gcsfs for gs, adlfs for az',
            )
        ) from None
    return files, root
