"""Import of foreign torch weights: `.pt` to safetensors."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import IO

import trainwright
from trainwright.checkpoint.files.tensor_file import read_foreign
from trainwright.checkpoint.strict_json import Damaged
from trainwright.core.errors import Mistake, Problem
from trainwright.core.files import write_atomic
from trainwright.core.formatting import show_bytes

_ROOM = 4
_SMALL_BYTES = 64 * 2**20
_MOST_SAID = 300
_PATIENCE = 5
_TORCH_BYTES = 6 * 2**30
_CPU_SECONDS = 8
_BYTES_A_SECOND = 20 * 2**20
_READER = """
import sys
sys.path.insert(0, sys.argv.pop(1))
from trainwright.checkpoint.foreign.torch_import_child import main
main()
"""
_CONTROL = re.compile(r"[^\x20-\x7e]+")


def convert_foreign(source: Path, output: Path) -> list[str]:
    """Convert the tensors of a `.pt` file to safetensors; their names.

    The file is read by a sandboxed process that can neither open files, nor connect, nor start
    programs, with limited memory and time; its output is validated here before it is kept.

    Raises:
        Mistake: it cannot be read this way. StorageFailed: the output cannot be written.
    """
    try:
        descriptor = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise _refused(source, error.strerror or str(error)) from error
    with os.fdopen(descriptor, "rb") as stream:
        data = _read_apart(stream, source)
    try:
        names = sorted(read_foreign(data))
    except Damaged as error:
        raise _refused(source, f"the reader gave no safetensors: {error}") from None
    write_atomic(output, data)
    return names


def _read_apart(stream: IO[bytes], source: Path) -> bytes:
    """Output of the reader process for an open file, at most a few times the file's size."""
    size = os.fstat(stream.fileno()).st_size
    most = _ROOM * size + _SMALL_BYTES
    root = str(Path(trainwright.__file__).parents[1])
    # Most of the first seconds is the import of torch.
    seconds = _CPU_SECONDS + size // _BYTES_A_SECOND
    limits = (str(_TORCH_BYTES + 2 * most), str(seconds))
    with tempfile.TemporaryFile() as said:
        reader = subprocess.Popen(  # noqa: S603  our own program, no shell
            [sys.executable, "-I", "-c", _READER, root, *limits],
            stdin=stream,
            stdout=subprocess.PIPE,
            stderr=said,
            env=_environment(),
            cwd="/",
        )
        timer = threading.Timer(_PATIENCE * seconds, reader.kill)
        timer.start()
        assert reader.stdout is not None
        try:
            data = reader.stdout.read(most + 1)
            if len(data) > most:
                reader.kill()
        finally:
            reader.stdout.close()
            reader.wait()
            # Wall-clock limit: it may also stop without using up its CPU time.
            timer.cancel()
        said.seek(0)
        reason = _CONTROL.sub(" ", said.read(_MOST_SAID).decode(errors="replace")).strip()
    if len(data) > most:
        raise _refused(source, f"it grows to more than {show_bytes(most)}")
    if reader.returncode:
        raise _refused(source, reason or f"the reader ended with {reader.returncode}")
    return data


def _environment() -> dict[str, str]:
    """Environment of the reader: none of our secrets, and the same packages."""
    kept = {name: os.environ[name] for name in ("LD_LIBRARY_PATH", "LANG") if name in os.environ}
    return {**kept, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}


def _refused(source: Path, why: str) -> Mistake:
    return Mistake(
        Problem(
            "this file cannot be converted",
            found=f"{source}: {why}",
            expected="a file that torch.save wrote of named tensors, and of nothing else",
            fix="save the state_dict alone where the file comes from, or ask for safetensors",
        )
    )
