"""What no stage has a word for: one line and an exit code, and no traceback."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from command import PROCESS, command, write_project
from deadlines import within


@pytest.mark.parametrize(("error", "code"), [(MemoryError, 14), (RecursionError, 2)])
def test_exhausted_memory_and_depth_end_with_one_line(
    error: type[Exception], code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> str:
        raise error

    monkeypatch.setattr("trainwright.contract.reading.schema.schema_text", fail)
    ran = command("schema")
    assert (ran.code, len(ran.err.splitlines()), ran.out) == (code, 1, "")


@pytest.mark.extended
@pytest.mark.parametrize(
    ("ascii_only", "code"), [({}, 0), ({"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, 2)]
)
def test_names_of_files_may_have_letters_that_the_locale_lacks(
    ascii_only: dict[str, str], code: int, tmp_path: Path
) -> None:
    """Python takes UTF-8 in the locale C; where that is switched off, it cannot open the file."""
    contract = write_project(tmp_path)
    (tmp_path / "rows.csv").rename(tmp_path / "Zürich 東.csv")
    contract.write_text(contract.read_text().replace("rows.csv", "Zürich 東.csv"), "utf-8")
    plain = {key: value for key, value in os.environ.items() if not key.startswith("LC_")}
    ran = subprocess.run(
        [*PROCESS, "check", "small.yaml"],
        cwd=tmp_path,
        env={**plain, "LC_ALL": "C", **ascii_only},
        capture_output=True,
        timeout=within(120),
        check=False,
    )
    assert b"Traceback" not in ran.stderr
    assert ran.returncode == code, ran.stderr
