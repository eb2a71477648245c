"""Sandbox: restricts this process to computing and already open files. Linux."""

from __future__ import annotations

import ctypes
import os
import platform
import resource
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, final

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
