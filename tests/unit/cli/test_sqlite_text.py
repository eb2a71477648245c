"""Text of SQLite that is no UTF-8: a message, and no crash of the library that reads it."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from command import command

pytest.importorskip("adbc_driver_sqlite", reason="needs trainwright[sql]")


def test_text_that_is_no_utf_8_is_a_mistake(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "a.db") as database:
        database.execute("create table t (a text, b int)")
        rows = [(b"\xff\xfe%d" % number, number) for number in range(50)]
        database.executemany("insert into t values (cast(? as text), ?)", rows)
    contract = tmp_path / "c.yaml"
    contract.write_text(
        'data: {sql: {url: "sqlite:///a.db", query: "select a, b from t"}, target: b}\n'
        "model: {kind: linear}\n"
    )
    ran = command("check", contract)
    assert ran.code == 2
    assert "invalid utf8" in ran.err
