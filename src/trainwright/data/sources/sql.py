"""SQL queries by ADBC, with cancellable batches: SQLite and PostgreSQL.

The answer is a stream of the Arrow C interface (arrow.apache.org/docs/format/CStreamInterface): a
structure of functions. The one that gives the next batch is replaced by one that looks first.
"""

from __future__ import annotations

import ctypes
import errno
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, final
from urllib.parse import quote, urlsplit

import polars as pl

from trainwright.contract.sections.data.sources import Reading, Sql
from trainwright.core import limits
from trainwright.core.deadline import Overrun, call_within
from trainwright.core.errors import DataMistake, MissingExtra, Place, Problem, TrainwrightError
from trainwright.core.formatting import show_bytes
from trainwright.core.process import memory_bytes, resident_bytes
from trainwright.core.redaction import redact
from trainwright.data.formats.encodings import (
    check_columns,
    check_size,
    expansion_problem,
    most_expanded,
)
from trainwright.data.formats.file_format import NO_LINES
from trainwright.data.sources.frames import hash_frame
from trainwright.data.sources.source_file import SourcePart

_Next: Final = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
_QUERY = "data.sql.query"
_URL = "data.sql.url"


class _Stream(ctypes.Structure):
    _fields_ = (
        ("get_schema", ctypes.c_void_p),
        ("get_next", ctypes.c_void_p),
        ("get_last_error", ctypes.c_void_p),
        ("release", ctypes.c_void_p),
        ("private_data", ctypes.c_void_p),
    )


@final
class Batches:
    """Lets a stream give its batches until it is stopped."""

    def __init__(self) -> None:
        self._is_stopped = False
        self._kept: list[object] = []

    def of(self, handle: Any) -> Any:
        """The same stream of ADBC, which ends with an error once `stop` was called. It must not be
        read when this object is gone."""
        stream = _Stream.from_address(handle.address)
        given = _Next(stream.get_next)

        def following(this: int, batch: int) -> int:
            return errno.ECANCELED if self._is_stopped else int(given(this, batch))

        checked = _Next(following)
        self._kept += [given, checked]
        stream.get_next = ctypes.cast(checked, ctypes.c_void_p).value
        return handle

    def stop(self) -> None:
        """Give no further batch."""
        self._is_stopped = True


@final
@dataclass(frozen=True, slots=True)
class SqlQuery:
    """Result of a query, executed each time since changes cannot be detected. It is read into
    memory."""

    section: Sql
    folder: Path
    reading: Reading

    def parts(self) -> tuple[SourcePart, ...]:
        """The rows, in the order in which the database gives them.

        Raises:
            DataMistake: the database cannot be reached, or refuses the query.
            MissingExtra: the package that talks to it is not installed.
        """
        with self._errors():
            fetched = self._answer()
            # SQLite keeps any bytes as text; polars takes Arrow's word that it is UTF-8.
            text = pl.col(pl.String).cast(pl.Binary).cast(pl.String)
            frame = _plain(fetched.with_columns(text))
        size = int(frame.estimated_size())
        check_size(size, self._named, self.reading)
        return (SourcePart(self._named, hash_frame(frame), size, frame, NO_LINES),)

    def _answer(self) -> pl.DataFrame:
        """What the database answers, while its time and its memory are watched: a view of a small
        file may have rows without end."""
        seconds = self.reading.most_seconds
        most = memory_bytes() // limits.QUERY_MEMORY_SHARE
        size = self._file().stat().st_size if self._is_sqlite else 0
        if self._is_sqlite:
            most = min(most, most_expanded(size, self.reading.most_unpacked_ratio))
        before = resident_bytes()

        def is_large() -> bool:
            return resident_bytes() - before > most

        batches = Batches()
        try:
            # The thread that asks is the one that closes: it may be left behind.
            return call_within(seconds, lambda: self._fetched(batches), is_large)
        except Overrun as overrun:
            batches.stop()
            if overrun.is_late:
                raise DataMistake(self._too_slow(seconds)) from None
            if most < memory_bytes() // limits.QUERY_MEMORY_SHARE:
                problem = expansion_problem(most, size, self._named, self.reading)
                raise DataMistake(replace(problem, path=_QUERY)) from None
            raise DataMistake(self._too_large(most)) from None

    def _fetched(self, batches: Batches) -> pl.DataFrame:
        with closing(self._connect()) as connection:
            with closing(connection.cursor()) as cursor:
                self._only_read(cursor)
                cursor.execute(self.section.query)
                check_columns(len(cursor.description or ()), self._named, self.reading)
                fetched = pl.DataFrame(batches.of(cursor.fetch_arrow()))
            connection.rollback()
        return fetched

    def _too_large(self, most: int) -> Problem:
        return Problem(
            "the answer to the query does not fit into memory",
            path=_QUERY,
            found=f"{show_bytes(most)} and more",
            expected=f"at most {show_bytes(most)}, half of this machine's memory",
            fix="select fewer columns or rows, or export the answer to Parquet and name the file",
            place=Place(self._named),
        )

    def _too_slow(self, seconds: float) -> Problem:
        return Problem(
            "the query does not come to an end",
            path=_QUERY,
            found=f"no last row after {seconds:g} seconds",
            expected=f"an answer within {seconds:g} seconds",
            fix="simplify the query, or raise data.reading.most_seconds",
            place=Place(self._named),
        )

    @property
    def _named(self) -> str:
        """The database URL without user and password."""
        url = urlsplit(self.section.url)
        return f"{url.scheme}://{url.netloc.rpartition('@')[2]}{url.path}"

    @property
    def _is_sqlite(self) -> bool:
        return self.section.url.startswith("sqlite:")

    def _connect(self) -> Any:
        try:
            if self._is_sqlite:
                from adbc_driver_sqlite import dbapi as sqlite

                # Opened so that it can only be read: none is made.
                return sqlite.connect(f"file:{quote(str(self._file()))}?mode=ro")
            from adbc_driver_postgresql import dbapi as postgresql

            return postgresql.connect(self.section.url)
        except ImportError:
            raise MissingExtra(
                Problem(
                    "a query needs packages that are not installed",
                    path=_URL,
                    found=self._named,
                    fix="pip install 'trainwright[sql]'",
                )
            ) from None

    def _file(self) -> Path:
        """The database's file."""
        written = self.section.url.removeprefix("sqlite:").removeprefix("//").removeprefix("/")
        file = self.folder / written
        if not file.is_file():
            raise DataMistake(
                Problem(
                    "there is no such database",
                    path=_URL,
                    found=str(file),
                    fix="correct the URL: sqlite:///shop.db is a file beside the contract, "
                    "sqlite:////data/shop.db one anywhere",
                )
            )
        return file.resolve()

    def _only_read(self, cursor: Any) -> None:
        if self._is_sqlite:
            cursor.execute("PRAGMA query_only = ON")
        else:
            cursor.execute("SET TRANSACTION READ ONLY")

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except TrainwrightError:
            raise
        except pl.exceptions.DuplicateError as error:
            raise DataMistake(
                Problem(
                    "the query names a column twice",
                    path=_QUERY,
                    found=str(error).splitlines()[0],
                    expected="names that occur once",
                    fix="name the columns: SELECT a.id, b.id AS other_id ...",
                    place=Place(self._named),
                )
            ) from error
        except Exception as error:
            lines = [line for line in redact(str(error)).splitlines() if line.strip()]
            raise DataMistake(
                Problem(
                    "the database refuses the query, or cannot be reached",
                    path=_QUERY,
                    found=f"{type(error).__name__}: {lines[0][:200] if lines else ''}",
                    expected="one SELECT, and a database that this user may read",
                    fix="try the query with psql or sqlite3; a password comes from PGPASSWORD or "
                    "~/.pgpass",
                    place=Place(self._named),
                )
            ) from error


def _plain(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame without types of the database's own: a NUMERIC of PostgreSQL is text, which is
    typed by its values as in a CSV."""
    own = [name for name, kind in frame.schema.items() if isinstance(kind, pl.BaseExtension)]
    return frame.with_columns(pl.col(own).ext.storage()) if own else frame
