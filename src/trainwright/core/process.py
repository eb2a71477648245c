"""This process: memory, threads of numpy, garbage collection during imports, permission to run
code.

The permission to run code that a contract names belongs to a command or a call, never to the
contract.
"""

from __future__ import annotations

import ctypes
import gc
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Literal

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_LARGE_BYTES = 2 * 2**20
_MMAP_THRESHOLD = -3
_TORCH = "THP_MEM_ALLOC_ENABLE"
_OF_OPENBLAS = "OPENBLAS_NUM_THREADS"
_OF_GLIBC = "MALLOC_MMAP_THRESHOLD_"
_HUGE = Path("/sys/kernel/mm/transparent_hugepage/enabled")
_LASTING = ContextVar("_LASTING", default=False)
_FOLDERS: ContextVar[Literal["refused"] | tuple[Path, ...]] = ContextVar("code", default="refused")


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread inside the block; also a decorator. Products of small matrices do
    not gain from more, and waiting threads spin: for seconds on busy cores. SciPy has a BLAS of its
    own: one that is first loaded inside the block reads the environment, and keeps one thread."""
    from threadpoolctl import threadpool_limits

    before = os.environ.get(_OF_OPENBLAS)
    os.environ[_OF_OPENBLAS] = "1"
    try:
        with threadpool_limits(1, user_api="blas"):
            yield
    finally:
        if before is None:
            del os.environ[_OF_OPENBLAS]
        else:
            os.environ[_OF_OPENBLAS] = before


def memory_bytes() -> int:
    """Memory of the machine, or of its control group if less."""
    total = os.sysconf("SC_PHYS_PAGES") * _PAGE_BYTES
    try:
        limit = int(Path("/sys/fs/cgroup/memory.max").read_text())
    except (OSError, ValueError):
        return total
    return min(total, limit)


def resident_bytes() -> int:
    """Resident memory of this process; 0 if the kernel does not report it."""
    try:
        with open("/proc/self/statm", "rb") as stream:  # noqa: PTH123  Path.open is slower
            return int(stream.read().split()[1]) * _PAGE_BYTES
    except OSError:
        return 0


def give_back_large_tensors() -> bool:
    """Map each tensor of at least two mebibytes by itself from now on; whether that is so.

    The C library keeps what is freed below a limit that rises to 32 MiB, for what comes next; of
    tensors of many sizes that leaves holes, which take a fifth of the memory of a training beside
    a frozen base. A mapping is cleared page by page, which would cost more time than it saves but
    for the huge pages that torch asks for. So nothing is changed where these are not given, where
    torch was imported before, as it reads its setting once, or where a setting was made for it.
    """
    chosen = _TORCH in os.environ or _OF_GLIBC in os.environ
    if sys.platform != "linux" or "torch" in sys.modules or chosen or not _has_huge_pages():
        return False
    try:
        is_set = bool(ctypes.CDLL(None).mallopt(_MMAP_THRESHOLD, _LARGE_BYTES))
    except (OSError, AttributeError):  # another C library
        return False
    if is_set:
        os.environ[_TORCH] = "1"
    return is_set


def _has_huge_pages() -> bool:
    """Does the system give huge pages to those who ask?"""
    try:
        return "[never]" not in _HUGE.read_text(encoding="ascii")
    except OSError:
        return False


@contextmanager
def loading() -> Iterator[None]:
    """Pause the cyclic garbage collector inside the block, for imports: a library's objects are
    permanent, and would be scanned again and again while it loads.

    After the block all of them are in the oldest generation; inside `lasting` they are frozen.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if not _LASTING.get():
            gc.unfreeze()
        gc.enable()


@contextmanager
def lasting() -> Iterator[None]:
    """Exclude existing objects, and those imported under `loading`, from garbage collection inside
    the block: for a process that keeps them to its end."""
    gc.freeze()
    before = _LASTING.set(True)
    try:
        yield
    finally:
        _LASTING.reset(before)
        gc.unfreeze()


@contextmanager
def code_allowed(is_allowed: bool) -> Iterator[None]:
    """Allow such code inside the block, or not."""
    token = _FOLDERS.set((Path.cwd(),) if is_allowed else "refused")
    try:
        yield
    finally:
        _FOLDERS.reset(token)


def is_code_allowed() -> bool:
    """May the code that a contract names be run?"""
    return _FOLDERS.get() != "refused"


def permission_words() -> tuple[str, ...]:
    """What a command that follows this one is given, so that it may run the code too."""
    return ("--allow-code",) if is_code_allowed() else ()


def code_folders() -> tuple[Path, ...]:
    """Folders in which such code is looked for, beside the path of Python: those of contracts, and
    the working directory."""
    folders = _FOLDERS.get()
    return () if folders == "refused" else folders


def look_for_code_in(folder: Path) -> None:
    """Look for it in a folder, before all others; without the permission nothing is looked for."""
    folders = _FOLDERS.get()
    if folders != "refused":
        _FOLDERS.set((folder, *(one for one in folders if one != folder)))


def is_rank() -> bool:
    """Was this process started to train with others, by torchrun or inside srun?"""
    return os.environ.keys() >= {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}


def world_size() -> int:
    """Processes that train together: those that were started for it, else this one."""
    return int(os.environ["WORLD_SIZE"]) if is_rank() else 1


def ranks_here() -> int:
    """Those of them on this machine, as torchrun says."""
    return int(os.environ.get("LOCAL_WORLD_SIZE", "1")) if is_rank() else 1
