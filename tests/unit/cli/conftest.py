"""A project with a finished run that the tests share, and one of a test's own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from command import command, inside, project_in, write_project


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with data, contract and one finished run, `small-1`."""
    folder = tmp_path_factory.mktemp("project")
    write_project(folder)
    with inside(folder):
        ran = command("train", "small.yaml")
        assert ran.code in (0, 3), ran.err
    return folder


@pytest.fixture
def in_project(project: Path) -> Iterator[None]:
    with inside(project):
        yield


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Path]:
    """A project of its own, without a run."""
    yield from project_in(tmp_path)
