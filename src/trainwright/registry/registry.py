"""A registry of models: numbered versions, the one in use, and what was done, in one database."""

from __future__ import annotations

import getpass
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, final

from trainwright.core.errors import Mistake, Problem, StorageFailed
from trainwright.core.files import Json, check_name
from trainwright.registry.audit_log import FIRST_HASH, Event, LogLine
from trainwright.registry.tables import ALIASES, LOG, VERSIONS, open_engine

if TYPE_CHECKING:
    from sqlalchemy import Connection

CHAMPION, CHALLENGER = "champion", "challenger"


@final
@dataclass(frozen=True, slots=True)
class Version:
    """A version of a model: its number among those of its name, the run that it is a copy of, the
    hash of its bundle, the versions of its data and of its rows, its verdict and purpose, and the
    metric's value on the run's test rows."""

    model: str
    number: int
    run: str
    bundle: str
    data: str
    rows: str
    verdict: str
    purpose: str
    metric: str
    value: float | None
    added: str

    @property
    def label(self) -> str:
        """`income:3`."""
        return f"{self.model}:{self.number}"


@final
@dataclass(frozen=True, slots=True)
class RegistryState:
    """Everything in a registry at one time: versions in their order, the number of each model's
    aliases, and the log from its first line."""

    versions: Sequence[Version]
    aliases: Mapping[tuple[str, str], int]
    log: Sequence[LogLine]

    def find(self, reference: str) -> Version:
        """The version of `income:3`, `income@champion`, or the one in use of `income`.

        Raises:
            Mistake: there is none.
        """
        model, _, number = reference.removeprefix("registry:").partition(":")
        model, _, alias = model.partition("@")
        number = number or str(self.aliases.get((model, alias or CHAMPION), ""))
        of_model = [version for version in self.versions if version.model == model]
        for version in of_model:
            if str(version.number) == number:
                return version
        labels = ", ".join(version.label for version in of_model[-5:])
        models = ", ".join(sorted({version.model for version in self.versions}))
        raise Mistake(
            Problem(
                f"the registry has no {reference}",
                found=labels or f"models {models}",
                expected="MODEL:VERSION, or MODEL@ALIAS",
                fix="see what there is: trainwright registry list",
            )
        )


@final
class Registry:
    """The database of a registry and the folder of its models' files; made at its first use.

    Each change is one transaction with its line of the log, and waits for that of another process.
    """

    def __init__(self, place: str, artifacts: str = "") -> None:
        """Open a registry: a folder, or the URL of a PostgreSQL database and a folder.

        Raises:
            MissingExtra: the driver is not installed. Mistake: it cannot be used.
        """
        if "://" in place and not artifacts:
            raise Mistake(
                Problem(
                    "a registry in a database needs a folder for its models",
                    path="--artifacts",
                    found=place,
                    fix="add --artifacts FOLDER, which all its users see",
                )
            )
        self.artifacts = Path(artifacts or Path(place) / "artifacts")
        self._place = place
        self._engine, self._lock = open_engine(place)

    @contextmanager
    def _transaction(self, *, writes: bool) -> Iterator[Connection]:
        """A transaction; those that write come one after another."""
        from sqlalchemy.exc import DBAPIError

        try:
            with self._engine.connect().execution_options(reads=not writes) as connection:
                if writes:
                    connection.execute(self._lock)
                yield connection
                connection.commit()
        except DBAPIError as error:
            raise StorageFailed(f"the registry {self._place}: {error.orig}") from error

    def read(self, connection: Connection | None = None) -> RegistryState:
        """Everything in it, in a transaction of its own or a given one."""
        if connection is None:
            with self._transaction(writes=False) as transaction:
                return self.read(transaction)
        versions, aliases, log = (
            connection.execute(table.select().order_by(*table.primary_key)).mappings().all()
            for table in (VERSIONS, ALIASES, LOG)
        )
        return RegistryState(
            [Version(**row) for row in versions],
            {(row["model"], row["alias"]): row["version"] for row in aliases},
            [LogLine(**{**row, "gate": json.loads(row["gate"])}) for row in log],
        )

    def add(self, version: Version, reason: str) -> Version:
        """Register the next version of a model; its number is given here."""
        check_name(version.model, "a model's name")
        with self._transaction(writes=True) as connection:
            state = self.read(connection)
            numbers = [old.number for old in state.versions if old.model == version.model]
            now = datetime.now(UTC).isoformat(timespec="seconds")
            version = replace(version, number=max(numbers, default=0) + 1, added=now)
            connection.execute(VERSIONS.insert().values(**asdict(version)))
            self._write_line(connection, state, "added", version, reason)
        return version

    def record_gate(self, version: Version, event: Event, gate: Json, reason: str) -> int:
        """Note a decision of the gate. With `promoted` the version comes into use, else it is the
        challenger. The number of the version in use before, 0 if none."""
        alias = CHAMPION if event == "promoted" else CHALLENGER
        with self._transaction(writes=True) as connection:
            state = self.read(connection)
            self._write_line(connection, state, event, version, reason, alias, gate)
        return state.aliases.get((version.model, CHAMPION), 0)

    def roll_back(self, model: str, reason: str) -> Version:
        """Put the version into use that was before the one in use was promoted.

        Raises:
            Mistake: there was none.
        """
        with self._transaction(writes=True) as connection:
            state = self.read(connection)
            current = state.aliases.get((model, CHAMPION), 0)
            earlier = [
                line.version_before
                for line in state.log
                if (line.model, line.event, line.version) == (model, "promoted", current)
            ]
            if not earlier or not earlier[-1]:
                raise Mistake(
                    Problem(
                        f"no version of {model} was in use before",
                        found=f"{model}:{current} is in use" if current else "none is in use",
                        fix="see what happened: trainwright registry log",
                    )
                )
            version = state.find(f"{model}:{earlier[-1]}")
            self._write_line(connection, state, "rolled_back", version, reason, CHAMPION)
        return version

    def _write_line(
        self,
        connection: Connection,
        state: RegistryState,
        event: Event,
        version: Version,
        reason: str,
        alias: str = "",
        gate: Json = (),
    ) -> None:
        """Write the next line of the log, and give the version an alias."""
        model = version.model
        line = LogLine(
            number=len(state.log) + 1,
            time=datetime.now(UTC).isoformat(timespec="microseconds"),
            user=getpass.getuser(),
            event=event,
            model=model,
            version=version.number,
            version_before=state.aliases.get((model, CHAMPION), 0),
            reason=reason,
            gate=list(gate),
            previous=state.log[-1].hash if state.log else FIRST_HASH,
        )
        row = {**asdict(line), "gate": json.dumps(line.gate), "hash": line.compute_hash()}
        connection.execute(LOG.insert().values(row))
        if alias:
            is_alias = (ALIASES.c.model == model) & (ALIASES.c.alias == alias)
            connection.execute(ALIASES.delete().where(is_alias))
            pointed = ALIASES.insert().values(model=model, alias=alias, version=version.number)
            connection.execute(pointed)
