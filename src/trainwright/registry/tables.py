"""The tables of a registry, and the engine of its database."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import (
    Column,
    Connection,
    Engine,
    Executable,
    Float,
    Integer,
    MetaData,
    String,
    Table,
    create_engine,
    event,
    text,
)
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from trainwright.core.errors import Mistake, Problem
from trainwright.core.files import storage_errors
from trainwright.core.lazy_imports import need_package

_TABLES = MetaData()
_NAMES = ("run", "bundle", "data", "rows", "verdict", "purpose", "metric")
VERSIONS = Table(
    "trainwright_versions",
    _TABLES,
    Column("model", String, primary_key=True),
    Column("number", Integer, primary_key=True),
    *(Column(name, String, nullable=False) for name in _NAMES),
    Column("value", Float),
    Column("added", String, nullable=False),
)
ALIASES = Table(
    "trainwright_aliases",
    _TABLES,
    Column("model", String, primary_key=True),
    Column("alias", String, primary_key=True),
    Column("version", Integer, nullable=False),
)
_TEXTS = ("time", "user", "event", "model", "reason", "gate", "previous", "hash")
LOG = Table(
    "trainwright_log",
    _TABLES,
    Column("number", Integer, primary_key=True, autoincrement=False),
    *(Column(name, String, nullable=False) for name in _TEXTS),
    Column("version", Integer, nullable=False),
    Column("version_before", Integer, nullable=False),
)

_SECONDS_TO_WAIT = 60
_LOCK = 7_472_616_969  # any number that other programs hardly use


def open_engine(place: str) -> tuple[Engine, Executable]:
    """The engine of a folder or of the URL of a database, with its tables, and the statement that
    makes a transaction wait for the others.

    Raises:
        MissingExtra: the driver of PostgreSQL is not installed. Mistake: the database cannot be
            used. StorageFailed: the folder cannot be made.
    """
    scheme, _, address = place.rpartition("://")
    lock: Executable = text("select 1")
    if scheme:
        need_package("psycopg", "postgresql", "--registry", "a registry in PostgreSQL")
        engine = create_engine(f"postgresql+psycopg://{address}", poolclass=NullPool)
        lock = text(f"select pg_advisory_xact_lock({_LOCK})")
    else:
        with storage_errors(f"making the registry {place}"):
            Path(place).mkdir(parents=True, exist_ok=True)
        url = f"sqlite:///{Path(place, 'registry.db')}"
        connect_args = {"timeout": _SECONDS_TO_WAIT, "isolation_level": None}
        engine = create_engine(url, connect_args=connect_args, poolclass=NullPool)
        event.listen(engine, "begin", _begin)
    try:
        with engine.begin() as connection:
            connection.execute(lock)
            _TABLES.create_all(connection)
    except DBAPIError as error:
        reason = str(error.orig).splitlines()[0]
        raise Mistake(
            Problem(
                "the registry cannot be used",
                path="--registry",
                found=f"{place}: {reason}",
                expected="a folder, or a database in which this user may make tables",
                fix="name another; the password of PostgreSQL comes from PGPASSWORD or ~/.pgpass",
            )
        ) from None
    return engine, lock


def _begin(connection: Connection) -> None:
    """Begin a transaction of SQLite as a writer: one that became a writer later would be refused at
    once where another has written meanwhile."""
    reads = connection.get_execution_options().get("reads")
    connection.exec_driver_sql("begin" if reads else "begin immediate")
