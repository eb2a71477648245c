"""Text of the data that would steer a terminal is shown without what steers it."""

from __future__ import annotations

import io
import json

import pytest

from trainwright.cli.render import results_console, show_json, show_table
from trainwright.core.errors import Problem
from trainwright.core.formatting import show_safely
from trainwright.run.screen import StreamScreen

STEERING = "a\x1b[1mbold\x1b[0m\x07c\x9b0md\x08\re\u2069f"
ORDINARY = "Zürich 東京 שלום é 👩\u200d🔬\ttab\nline"


def _is_plain(text: str) -> bool:
    return not set(text) & set("\x1b\x07\x08\x9b\r\u2069") and "bold" in text


def test_what_steers_a_terminal_is_replaced_and_letters_stay() -> None:
    assert _is_plain(show_safely(STEERING))
    assert show_safely(ORDINARY) == ORDINARY
    controls = {*range(32), *range(127, 160)} - set(map(ord, "\t\n"))
    marks = {0x2028, 0x2029, *range(0x202A, 0x202F), *range(0x2066, 0x206A)}
    for code in controls | marks:
        assert show_safely(chr(code)) == "\N{REPLACEMENT CHARACTER}"


def test_a_problem_shows_no_escapes() -> None:
    assert _is_plain(str(Problem(STEERING, path=STEERING, found=STEERING, fix=STEERING)))


def test_lines_of_a_run_show_no_escapes() -> None:
    stream = io.StringIO()
    StreamScreen(stream).say(STEERING)
    assert _is_plain(stream.getvalue())


def test_tables_and_texts_show_no_escapes(capsys: pytest.CaptureFixture[str]) -> None:
    show_table([STEERING, "b"], [[STEERING, "1"]], named="first")
    results_console().print(STEERING, markup=False)
    shown = capsys.readouterr().out
    assert _is_plain(shown)
    assert shown.count("bold") == 3


def test_json_reads_as_before_and_shows_no_escapes(capsys: pytest.CaptureFixture[str]) -> None:
    show_json({"name": STEERING, "place": ORDINARY})
    shown = capsys.readouterr().out
    assert _is_plain(shown)
    assert json.loads(shown) == {"name": STEERING, "place": ORDINARY}
