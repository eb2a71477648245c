"""Text of the data that would steer a terminal."""

from __future__ import annotations

import io
import json

import pytest

from trainwright.cli.render import results_console, show_json, show_table
from trainwright.core.errors import Problem
from trainwright.core.formatting import show_safely
from trainwright.run.screen import StreamScreen

HOSTILE = "a\x1b[31mb\x1b]0;title\x07c\x9b2Jd\x08\re\u202ef"
ORDINARY = "Zürich 東京 שלום é 👩\u200d🔬\ttab\nline"


def _is_harmless(text: str) -> bool:
    return not set(text) & set("\x1b\x07\x08\x9b\r\u202e") and "title" in text


def test_what_steers_a_terminal_is_replaced_and_letters_stay() -> None:
    assert _is_harmless(show_safely(HOSTILE))
    assert show_safely(ORDINARY) == ORDINARY


def test_a_problem_shows_no_escapes() -> None:
    assert _is_harmless(str(Problem(HOSTILE, path=HOSTILE, found=HOSTILE, fix=HOSTILE)))


def test_lines_of_a_run_show_no_escapes() -> None:
    stream = io.StringIO()
    StreamScreen(stream).say(HOSTILE)
    assert _is_harmless(stream.getvalue())


def test_tables_and_texts_show_no_escapes(capsys: pytest.CaptureFixture[str]) -> None:
    show_table([HOSTILE, "b"], [[HOSTILE, "1"]], named="first")
    results_console().print(HOSTILE, markup=False)
    shown = capsys.readouterr().out
    assert _is_harmless(shown)
    assert shown.count("title") == 3


def test_json_reads_as_before_and_shows_no_escapes(capsys: pytest.CaptureFixture[str]) -> None:
    show_json({"name": HOSTILE, "place": ORDINARY})
    shown = capsys.readouterr().out
    assert _is_harmless(shown)
    assert json.loads(shown) == {"name": HOSTILE, "place": ORDINARY}
