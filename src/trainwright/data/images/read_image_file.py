"""Bounded reads of the files of images, inside their folder."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from trainwright.core.limits import MOST_IMAGE_BYTES
from trainwright.data.images.decode import ImageFault


def read_inside(path: Path, root: Path) -> bytes | ImageFault:
    """The bytes of a regular file that lies, when every link is followed, inside `root`, which has
    been resolved."""
    try:
        real = path.resolve()
        inside = real.is_relative_to(root)
    except (OSError, ValueError, RuntimeError) as error:
        return ImageFault(
            "this is no path of a file",
            found=repr(str(path))[:200],
            expected="the path of an image",
            fix=f"correct it ({type(error).__name__})",
            droppable=False,
        )
    if not inside:
        return ImageFault(
            "the path leads out of its folder",
            found=f"{str(path)[:200]} -> {real}",
            expected=f"a file inside {root}",
            fix="copy the image into the folder, or name a folder that holds all of them",
            droppable=False,
        )
    return read_image_file(real)


def read_each_inside(names: Iterable[str], root: Path) -> Iterator[bytes | ImageFault]:
    """`read_inside` of each name below `root`. The links of a folder are followed once for all of
    its files that follow each other, which takes half of the time of reading small files."""
    folder, real = "", root
    for name in names:
        above, _, last = name.rpartition("/")
        if name.startswith("/") or "\0" in name or last in ("", ".", ".."):
            yield read_inside(root / name, root)
            continue
        if above != folder:
            folder, real = above, _resolved(root / above)
        file = real / last
        if file.is_symlink() or not real.is_relative_to(root):
            yield read_inside(root / name, root)
        else:
            yield read_image_file(file)


def _resolved(folder: Path) -> Path:
    """Where a folder really is; nowhere, if its links have no end."""
    try:
        return folder.resolve()
    except (OSError, ValueError, RuntimeError):
        return Path()


def too_large(size: int) -> ImageFault:
    """A record that is refused by its size alone."""
    return ImageFault(
        "the file is too large for an image",
        found=f"{size:,} bytes",
        expected=f"at most {MOST_IMAGE_BYTES:,}",
        fix="remove it, or save it smaller",
    )


def read_image_file(real: Path) -> bytes | ImageFault:
    """The bytes of a file that is no link, pipe or device."""
    try:
        # Without waiting: a named pipe would hold the reader for ever.
        descriptor = os.open(real, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    except FileNotFoundError:
        return ImageFault("there is no such file", fix="correct the path, or put the file there")
    except (OSError, ValueError) as error:
        return ImageFault(
            f"the file cannot be read: {getattr(error, 'strerror', '') or error}",
            fix="check its rights",
        )
    try:
        return _regular_bytes(descriptor)
    finally:
        os.close(descriptor)


def _regular_bytes(descriptor: int) -> bytes | ImageFault:
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        return ImageFault(
            "this is no file",
            found="a folder" if stat.S_ISDIR(status.st_mode) else "a device, pipe or socket",
            expected="the file of an image",
            fix="remove it",
            droppable=False,
        )
    if status.st_size > MOST_IMAGE_BYTES:
        return too_large(status.st_size)
    # Opened once the kind is known: Python opens no folder.
    with os.fdopen(descriptor, "rb", closefd=False) as stream:
        return stream.read(MOST_IMAGE_BYTES)
