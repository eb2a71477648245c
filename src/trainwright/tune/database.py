"""The PostgreSQL database of a study that several machines share: Optuna's tables, and locks that
end with the process that holds them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, final

from trainwright.core.errors import Mistake, Problem, StorageFailed
from trainwright.core.lazy_imports import need_package

if TYPE_CHECKING:
    from optuna.study import Study

_KEEP_ALIVE = "-c tcp_keepalives_idle=30 -c tcp_keepalives_interval=10 -c tcp_keepalives_count=3"
"""The server notices within a minute that a machine is gone, and frees its locks."""

_ALL = -1
"""In the place of a trial's number: the lock under which trials are given out."""


@final
class StudyDatabase:
    """Optuna's tables, made if they are missing, and a lock for each trial of a study."""

    def __init__(self, url: str) -> None:
        """Connect to the URL of a contract.

        Raises:
            MissingExtra: the driver of PostgreSQL is not installed. Mistake: the database cannot be
                used.
        """
        need_package("psycopg", "postgresql", "tune.storage", "a study of several machines")
        from optuna.storages import RDBStorage
        from sqlalchemy.exc import DBAPIError

        _, _, place = url.partition("://")
        options = {"pool_pre_ping": True, "connect_args": {"options": _KEEP_ALIVE}}
        try:
            self.storage = RDBStorage(f"postgresql+psycopg://{place}", engine_kwargs=options)
            self._session = self.storage.engine.connect()
        except DBAPIError as error:
            what, found = "the database of the study cannot be used", f"{url}: {_reason_of(error)}"
            expected = "a PostgreSQL database in which this user may make tables"
            fix = "start it or name another; the password comes from PGPASSWORD or ~/.pgpass"
            raise Mistake(Problem(what, "tune.storage", found, expected, fix)) from None
        self._session = self._session.execution_options(isolation_level="AUTOCOMMIT")

    def close(self) -> None:
        """Free all locks and end the connections."""
        self._session.invalidate()
        self._session.close()
        self.storage.remove_session()
        self.storage.engine.dispose()

    def load(self, name: str) -> Study:
        """A study of the tables; the locks are those of its trials from here on."""
        import optuna

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._name = name
        return optuna.load_study(storage=self.storage, study_name=name)

    @contextmanager
    def giving_out(self) -> Iterator[None]:
        """Inside the block no other driver takes a trial."""
        self._call("pg_advisory_lock", _ALL)
        try:
            yield
        finally:
            self.unlock(_ALL)

    def try_lock(self, number: int) -> bool:
        """Take a trial until it is freed or this process ends, unless another driver has it."""
        return self._call("pg_try_advisory_lock", number)

    def unlock(self, number: int) -> None:
        """Free a trial."""
        self._call("pg_advisory_unlock", number)

    def _call(self, function: str, number: int) -> bool:
        from sqlalchemy import text

        statement = text(f"SELECT {function}(hashtextextended(:name, 0))")
        return bool(self._session.execute(statement, {"name": f"{self._name}/{number}"}).scalar())


@contextmanager
def database_errors() -> Iterator[None]:
    """Say how to go on where the database is lost inside the block.

    Raises:
        StorageFailed: it is.
    """
    from optuna.exceptions import StorageInternalError
    from sqlalchemy.exc import DBAPIError

    try:
        yield
    except (DBAPIError, StorageInternalError) as error:
        raise StorageFailed(
            f"the database of the study is gone: {_reason_of(error.__cause__ or error)}. Start "
            "this command again, the first driver with --resume; no trial is lost."
        ) from error


def _reason_of(error: BaseException) -> str:
    return str(getattr(error, "orig", None) or error).strip().partition("\n")[0]
