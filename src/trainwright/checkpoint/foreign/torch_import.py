"""Import of foreign torch weights: `.pt` to safetensors, in a process that may only compute."""

from __future__ import annotations

import ctypes
import os
import platform
import re
import resource
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import IO, Final, final

import trainwright
from trainwright.checkpoint.files.tensor_file import read_foreign
from trainwright.checkpoint.strict_json import Damaged
from trainwright.core.errors import Mistake, Problem
from trainwright.core.files import write_atomic
from trainwright.core.formatting import show_bytes

_SAID_BYTES = 4096
_NO_NEW_PRIVS, _SET_SECCOMP, _FILTER_MODE = 38, 22, 2
_LOAD, _JUMP_EQUAL, _RETURN = 0x20, 0x15, 0x06
_ALLOW, _REFUSE, _KILL = 0x7FFF0000, 0x00050000 | 1, 0x80000000

# read write close fstat newfstatat lseek, mmap mprotect munmap brk mremap madvise,
# rt_sigaction rt_sigprocmask rt_sigreturn, sched_yield sched_getaffinity nanosleep clock_nanosleep
# clock_gettime futex rseq getpid gettid getrandom, exit exit_group
_X86 = "0 1 3 5 262 8 9 10 11 12 25 28 13 14 15 24 204 35 230 228 202 334 39 186 318 60 231"
_ARM = (
    "63 64 57 80 79 62 222 226 215 214 216 233 134 135 139 124 123 101 115 113 98 293 172 178 278 "
    "93 94"
)
_ARCHITECTURES: Final[Mapping[str, tuple[int, str]]] = MappingProxyType(
    {"x86_64": (0xC000003E, _X86), "aarch64": (0xC00000B7, _ARM)}
)
"""Audit number of each machine and the allowed system calls. None of them opens a file or a
connection, starts a program, or reaches another process; `newfstatat` can query the size of a file,
and the C library needs it for open files."""

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


@final
@dataclass(frozen=True, slots=True)
class Limits:
    """Resource limits of the process."""

    memory_bytes: int
    cpu_seconds: int


def lock_down(limits: Limits) -> None:
    """Refuse every other system call and enforce the limits from now on, irreversibly.

    Raises:
        OSError: this machine cannot enforce it; then nothing may be read.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (_SAID_BYTES, _SAID_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (limits.cpu_seconds, limits.cpu_seconds))
    resource.setrlimit(resource.RLIMIT_AS, (limits.memory_bytes, limits.memory_bytes))
    machine = platform.machine()
    if machine not in _ARCHITECTURES:
        raise OSError(f"no list of system calls for {machine}")
    audit, listed = _ARCHITECTURES[machine]
    calls = tuple(int(number) for number in listed.split())
    libc = ctypes.CDLL(None, use_errno=True)
    program = _program(audit, calls)
    buffer = ctypes.create_string_buffer(program, len(program))
    head = _Program(len(program) // 8, ctypes.addressof(buffer))
    if libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(
        _SET_SECCOMP, _FILTER_MODE, ctypes.byref(head), 0, 0
    ):
        number = ctypes.get_errno()
        raise OSError(number, f"seccomp: {os.strerror(number)}")


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


def _program(audit: int, calls: tuple[int, ...]) -> bytes:
    """Seccomp filter: kill for another machine's calls, allow those of the list, refuse the
    rest."""
    lines = [(_LOAD, 0, 0, 4), (_JUMP_EQUAL, 1, 0, audit), (_RETURN, 0, 0, _KILL), (_LOAD, 0, 0, 0)]
    for index, number in enumerate(calls):
        lines.append((_JUMP_EQUAL, len(calls) - index, 0, number))
    lines += [(_RETURN, 0, 0, _REFUSE), (_RETURN, 0, 0, _ALLOW)]
    return b"".join(struct.pack("HBBI", *line) for line in lines)


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
