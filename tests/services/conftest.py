"""Servers that tests talk to: started here, in environments of their own."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from trackers.mlflow_server import MlflowServer, free_port, mlflow_server

POSTGRES = "postgres"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """They need minutes and servers: `make services`."""
    if os.environ.get("TRAINWRIGHT_SERVICES"):
        return
    skip = pytest.mark.skip(reason="needs servers: make services")
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(skip)


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a database in a server of its own, run by the user `postgres`, as it refuses
    root."""
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    if not programs:
        pytest.fail("PostgreSQL is not installed: apt-get install postgresql")
    folder = Path("/tmp") / f"trainwright-postgres-{os.getpid()}"
    folder.mkdir()
    shutil.chown(folder, POSTGRES)
    port = free_port()
    start = [str(programs[-1] / "pg_ctl"), "-D", str(folder / "data"), "-w"]
    options = f"-p {port} -k {folder} -c listen_addresses=127.0.0.1"

    def as_postgres(*words: str) -> None:
        subprocess.run(words, check=True, user=POSTGRES, cwd=folder, stdout=subprocess.DEVNULL)

    as_postgres(str(programs[-1] / "initdb"), "-D", str(folder / "data"), "-A", "trust", "-N")
    as_postgres(*start, "-o", options, "-l", str(folder / "log"), "start")
    try:
        yield f"postgresql://{POSTGRES}@127.0.0.1:{port}/{POSTGRES}"
    finally:
        as_postgres(*start, "-m", "immediate", "stop")
        shutil.rmtree(folder)


@pytest.fixture(scope="session", params=["sqlite", "postgresql"])
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[MlflowServer]:
    """MLflow on SQLite, then on PostgreSQL."""
    folder = tmp_path_factory.mktemp("mlflow")
    store = f"sqlite:///{folder}/mlflow.db"
    if request.param == "postgresql":
        store = request.getfixturevalue("postgres").replace("://", "+psycopg2://")
    with mlflow_server(store, folder) as started:
        yield started
