"""Format detection by file name and magic bytes, and metadata of parsed rows."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Literal, final

import numpy as np

from trainwright.contract.sections.data.sources import USUAL, Reading
from trainwright.core.errors import DataMistake, Place, Problem, ProblemKind
from trainwright.data.base.inputs import Integers

NO_LINES: Integers = np.empty(0, dtype=np.int64)
Format = Literal["csv", "tsv", "jsonl", "parquet", "arrow"]
Compression = Literal["", ".gz", ".zst"]
FORMATS: MappingProxyType[str, Format] = MappingProxyType(
    {
        ".csv": "csv",
        ".tsv": "tsv",
        ".tab": "tsv",
        ".jsonl": "jsonl",
        ".ndjson": "jsonl",
        ".parquet": "parquet",
        ".pq": "parquet",
        ".arrow": "arrow",
        ".feather": "arrow",
        ".ipc": "arrow",
    }
)

DELTA_LOG = "_delta_log"
"""The folder in that of a Delta table which holds its log."""

EXPECTED = "CSV, TSV, JSON Lines (.jsonl), Parquet or Arrow, also .gz or .zst"
_LIST = "write one object on each line: jq -c '.[]' {name} > rows.jsonl"
_SHEET = "save the sheet as CSV"
_UNPACK = "unpack it, and name the file or the folder"
_PICKLE = "export the table as Parquet or CSV; a pickle can run code and is never opened here"
_DATABASE = 'name it in data.sql in place of path: {{url: "sqlite:///{name}", query: SELECT ...}}'
_ANOTHER = "export the table as Parquet or CSV"

_FIXES: MappingProxyType[str, str] = MappingProxyType(
    {
        ".json": _LIST,
        **dict.fromkeys((".xlsx", ".xls", ".xlsm", ".ods"), _SHEET),
        **dict.fromkeys((".zip", ".tar", ".tgz", ".7z", ".rar"), _UNPACK),
        **dict.fromkeys((".bz2", ".xz", ".lz4", ".br"), "unpack it, or pack it as .gz or .zst"),
        **dict.fromkeys((".pkl", ".pickle", ".joblib"), _PICKLE),
        **dict.fromkeys((".db", ".sqlite", ".sqlite3"), _DATABASE),
        **dict.fromkeys(
            (".orc", ".avro", ".h5", ".hdf5", ".dta", ".sav", ".rds", ".npy"), _ANOTHER
        ),
    }
)
"""What to do about files of other formats, by the end of their names."""

_MAGIC = (
    (b"\xff\xff\xff\xff", "Arrow stream"),
    (b"\x1f\x8b", "gzip"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"PK\x03\x04", "ZIP (an Excel workbook or another archive)"),
    (b"\x89PNG", "PNG image"),
    (b"\xff\xd8\xff", "JPEG image"),
    (b"%PDF", "PDF"),
    (b"\x89HDF", "HDF5"),
    (b"\x93NUMPY", "NumPy"),
    (b"\xfd7zXZ", "xz"),
    (b"SQLite format 3\x00", "SQLite database"),
    (b"\x7fELF", "program"),
    (b"\xd0\xcf\x11\xe0", "Excel 97 workbook"),
)

_MAGIC_OF_LETTERS = (
    (b"PAR1", "Parquet"),
    (b"ARROW1", "Arrow"),
    (b"GIF8", "GIF image"),
    (b"FEA1", "Feather version 1"),
)
"""A column may be called so; the files hold NUL bytes, which text does not."""

_BZIP2 = re.compile(rb"BZh[1-9](1AY&SY|\x17rE8P\x90)")
"""The size of its blocks, and the beginning of the first, or of the end where there is none."""

_ASIDE = ("_", ".")
_PICKLE_PROTOCOLS = (2, 3, 4, 5)
_HEAD_BYTES = 65_536
_WANTED: MappingProxyType[str, tuple[str, ...]] = MappingProxyType(
    {
        ".gz": ("gzip",),
        ".zst": ("zstd",),
        "parquet": ("Parquet",),
        "arrow": ("Arrow", "Arrow stream"),
        "csv": ("text",),
        "tsv": ("text",),
        "jsonl": ("text",),
        "text": ("text",),
    }
)
_NUL = (
    "name the file after its format, export the data again, or, if it is text with stray NUL "
    "bytes, set data.reading.control_characters to remove"
)
_WIDE_TEXT = ("UTF-16 text", "UTF-32 text")


@final
@dataclass(frozen=True, slots=True)
class ParseResult:
    """Beside the N rows that were written to an Arrow file, of text files all as strings: `lines`
    int64 [N] holds the line each row starts on; it is empty for files without lines. `skipped` are
    the lines of records that could not be read and were skipped."""

    lines: Integers
    skipped: tuple[int, ...] = ()


@final
class BadRecords:
    """Unreadable records, of which up to `most` are skipped."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.lines: list[int] = []

    def leave_out(self, line: int) -> bool:
        """Whether the record on this line may be skipped; it is counted either way."""
        self.lines.append(line)
        return len(self.lines) <= self._most

    @property
    def too_many(self) -> bool:
        """Whether more were met than may be skipped."""
        return len(self.lines) > self._most

    def check(self, problems: list[Problem]) -> None:
        """Raise the problems if there were too many."""
        if self.too_many:
            raise DataMistake(problems)


def format_of(written: str, path: str) -> tuple[Format, Compression]:
    """Format and compression by file name.

    Raises:
        DataMistake: it says none that is known; `path` is the contract path to blame.
    """
    if known := known_format(written):
        return known, packing_of(written)
    fix = next((_FIXES[end] for end in reversed(_suffixes_of(written)) if end in _FIXES), "")
    raise DataMistake(
        Problem(
            "the file's name does not say a format that can be read",
            path=path,
            found=written,
            expected=EXPECTED,
            fix=fix.format(name=written)
            if fix
            else "rename the file to end in its format, for example .csv",
        )
    )


def known_format(written: str) -> Format | Literal[""]:
    """The format that a path or URL says, however it is packed; empty if it says none."""
    suffixes = _suffixes_of(written)[: -1 if packing_of(written) else None]
    return FORMATS.get(suffixes[-1], "") if suffixes else ""


def is_untyped(written: str) -> bool:
    """Whether this names a file of text in which values have no type."""
    return known_format(written) in ("csv", "tsv")


def is_aside(name: str) -> bool:
    """Whether a piece of a path begins with `_` or `.`: what programs keep for themselves beside
    the data, such as `_SUCCESS` or `.ipynb_checkpoints`."""
    return any(piece.startswith(_ASIDE) for piece in _without_query(name).parts)


def is_part(name: str) -> bool:
    """Whether a name inside a folder is that of a file of data: neither a note beside the data,
    nor something else, such as a README."""
    return bool(known_format(name)) and not is_aside(name)


def is_delta(folder: Path) -> bool:
    """Is a folder a Delta table?"""
    return (folder / DELTA_LOG).is_dir()


def _suffixes_of(written: str) -> list[str]:
    return [suffix.lower() for suffix in _without_query(written).suffixes]


def _without_query(written: str) -> PurePosixPath:
    """A path, or a URL without what stands behind its `?`."""
    return PurePosixPath(written.partition("?")[0] if "://" in written else written)


def packing_of(written: str) -> Compression:
    """Compression of a file by its name."""
    match _suffixes_of(written)[-1:]:
        case [".gz"]:
            return ".gz"
        case [".zst"]:
            return ".zst"
        case _:
            return ""


def looks_like(head: bytes) -> str:
    """Format by the magic bytes."""
    for magic, name in _MAGIC:
        if head.startswith(magic):
            return name
    if _BZIP2.match(head):
        return "bzip2"
    for magic, name in _MAGIC_OF_LETTERS:
        if head.startswith(magic) and b"\x00" in head:
            return name
    if len(head) > 1 and head[0] == 0x80 and head[1] in _PICKLE_PROTOCOLS:
        return "Python pickle"
    if head.startswith((b"\xff\xfe\x00\x00", b"\x00\x00\xfe\xff")):
        return "UTF-32 text"
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "UTF-16 text"
    return "binary data" if b"\x00" in head else "text"


def check_content(file: Path, kind: str, written: str, reading: Reading = USUAL) -> None:
    """Hold a file's first bytes against what it should be: a format, a packing or `text`, which an
    encoding of two or four bytes a letter, or NUL bytes that are to be removed, may make look like
    binary data.

    Raises:
        DataMistake: it is something else, and no parser may see it.
    """
    with file.open("rb") as stream:
        head = stream.read(_HEAD_BYTES)
    found = looks_like(head)
    wide = reading.encoding.lower().replace("_", "-").startswith(("utf-16", "utf-32"))
    if found in _WANTED[kind] or (wide and found in (*_WIDE_TEXT, "binary data")):
        return
    is_text = kind in ("csv", "tsv", "jsonl", "text")
    if found == "binary data" and is_text and reading.control_characters == "remove":
        return
    fix = {
        "Python pickle": "export the table as Parquet or CSV; a pickle can run code and is "
        "never opened here",
        "UTF-16 text": f"set data.reading.encoding to utf-16, or: iconv -f UTF-16 -t UTF-8 "
        f"'{written}' > utf8.csv",
        "UTF-32 text": "set data.reading.encoding to utf-32",
        "gzip": "add .gz to the file's name",
        "zstd": "add .zst to the file's name",
        **({"binary data": _NUL} if is_text else {}),
    }.get(found, "name the file after its format, or export the data again")
    raise DataMistake(
        Problem(
            "the file's content is not what its name says",
            found=_with_nul(head) if found == "binary data" else found,
            expected=_WANTED[kind][0],
            fix=fix,
            place=Place(written),
            kind=_problem_kind(found) if is_text else "",
        )
    )


def _problem_kind(found: str) -> ProblemKind:
    if found in _WIDE_TEXT:
        return "encoding"
    return "control_characters" if found == "binary data" else ""


def _with_nul(head: bytes) -> str:
    return f"binary data: a NUL byte at offset {head.index(0):,}"


def damaged_file(written: str, kind: str, detail: str) -> DataMistake:
    """The mistake of a file that is cut short or damaged."""
    return DataMistake(
        Problem(
            f"the {kind} file is damaged or cut short",
            found=detail.splitlines()[0][:200] if detail else "",
            expected=f"a whole {kind} file",
            fix="copy or export the file again and compare its size with the original",
            place=Place(written),
        )
    )
