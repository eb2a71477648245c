"""Arrays of a model in one file: numpy's `.npz`, uncompressed and without pickle."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Arrays = Mapping[str, npt.NDArray[Any]]


def write_arrays(path: Path, arrays: Arrays) -> None:
    """Write arrays by their names."""
    np.savez(path, allow_pickle=False, **arrays)


def read_arrays(path: Path, wanted: Mapping[str, tuple[str, int]]) -> dict[str, npt.NDArray[Any]]:
    """Read arrays, of each of which the dtype and the number of axes are `wanted`.

    Raises:
        ValueError: other arrays, or sizes that the file does not hold.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            infos = {info.filename: info for info in archive.infolist()}
            if infos.keys() != {f"{name}.npy" for name in wanted}:
                raise ValueError(f"{path.name} holds other arrays")
            return {name: _read(archive, infos[f"{name}.npy"], *wanted[name]) for name in wanted}
    except (zipfile.BadZipFile, NotImplementedError, EOFError) as error:
        raise ValueError(f"{path.name} is no file of arrays: {error}") from error


def _read(
    archive: zipfile.ZipFile, info: zipfile.ZipInfo, dtype: str, axes: int
) -> npt.NDArray[Any]:
    """An array whose header names no more numbers than follow it."""
    with archive.open(info) as stream:
        if np.lib.format.read_magic(stream) != (1, 0):
            raise ValueError(f"{info.filename} has an unknown header")
        shape, is_fortran, kind = np.lib.format.read_array_header_1_0(stream)
        size = math.prod(shape) * kind.itemsize
        fits = info.compress_type == zipfile.ZIP_STORED and stream.tell() + size == info.file_size
        if not fits or is_fortran or kind != np.dtype(dtype) or len(shape) != axes:
            raise ValueError(f"{info.filename} is not the array that was written")
        return np.frombuffer(stream.read(), kind).reshape(shape)
