from __future__ import annotations

import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faults.tiers import times
from trainwright.contract.reading import yaml_reader
from trainwright.contract.reading.yaml_reader import Plain, read_yaml, yaml_value_text
from trainwright.core.errors import ContractMistake, Problem


def value_of(text: str) -> Plain:
    return read_yaml(text.encode(), "c.yaml").value


def refusal(data: str | bytes) -> Problem:
    raw = data.encode() if isinstance(data, str) else data
    with pytest.raises(ContractMistake) as caught:
        read_yaml(raw, "c.yaml")
    return caught.value.problems[0]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2e-5", 2e-5),
        ("1e-8", 1e-8),
        (".5", 0.5),
        ("-3", -3),
        ("010", 10),
        ("0x1F", 31),
        ("0o17", 15),
        ("true", True),
        ("yes", "yes"),
        ("no", "no"),
        ("on", "on"),
        ("off", "off"),
        ("2020-01-02", "2020-01-02"),
        ("12:30:00", "12:30:00"),
        ("1_000", "1_000"),
        ("NaN", "NaN"),
        ("'5'", "5"),
        ('"null"', "null"),
        ("~", None),
        ("", None),
        ("[1, [a]]", [1, ["a"]]),
        ("${HOME}", "${HOME}"),
    ],
)
def test_scalars_are_read_by_the_core_schema(text: str, value: Plain) -> None:
    read = value_of(f"key: {text}")
    assert read == {"key": value}
    assert isinstance(read, dict)
    assert type(read["key"]) is type(value)


def test_every_path_has_the_line_of_its_key_or_item() -> None:
    places = read_yaml(b"a:\n  b: 1\nc:\n  - x\n  - {d: 2}\n", "c.yaml").places
    lines = {path: place.line for path, place in places.items()}
    assert lines == {"": 1, "a": 1, "a.b": 2, "c": 3, "c.0": 4, "c.1": 5, "c.1.d": 5}


def test_an_alias_is_a_copy() -> None:
    assert value_of("a: &x {b: 1}\nc: *x") == {"a": {"b": 1}, "c": {"b": 1}}


def test_an_override_file_starting_with_a_byte_order_mark_is_read() -> None:
    assert read_yaml(b"\xef\xbb\xbfa: 1", "c.yaml").value == {"a": 1}


@pytest.mark.row("F-46")
@pytest.mark.parametrize(
    ("text", "message", "line"),
    [
        ("a: 1\nb: 2\na: 3", "second time", 3),
        ("a: {b: 1, b: 2}", "second time", 1),
        ("a: 1\nb: !!str 5", "tag", 2),
        ("a: !!python/tuple [1, 2]", "tag", 1),
        ("a: !foo bar", "tag", 1),
        ("a: ! bar", "tag", 1),
        ("!!map\na: 1", "tag", 1),
        ("a: &x {b: 1}\nc:\n  <<: *x", "merge key", 3),
        ("%YAML 1.1\n---\na: yes", "directive", 2),
        ("a: 1\n---\nb: 2", "several documents", 2),
        ("a: 1\n5: 2", "key must be text", 2),
        ("null: 2", "key must be text", 1),
        ("[a]: 2", "key must be text", 1),
        ("a: .nan", "not finite", 1),
        ("a: -.inf", "not finite", 1),
        ("a: 1\nb: 1e999", "not finite", 2),
        ("a: &a [*a]", "alias", 1),
        ("a: *nowhere", "alias", 1),
        ("a: [1\nb: 2", "not valid YAML", 2),
        ("a: b: c", "not valid YAML", 1),
        ("\ta: 1", "not valid YAML", 1),
        ("a: 'x", "not valid YAML", 1),
        ('a: "\\0"', "character that is none", 1),
        ('a: "\\ud800"', "character that is none", 1),
        ("a: " + "1" * 50, "too many digits", 1),
    ],
)
def test_what_is_refused_names_its_line(text: str, message: str, line: int) -> None:
    problem = refusal(text)
    assert message in problem.message
    assert problem.place.file == "c.yaml"
    assert problem.place.line == line
    assert problem.fix


def test_a_syntax_error_names_its_column() -> None:
    assert refusal("a: b: c").place.column == 5
    assert refusal("a: b: c").found == "column 5"


def test_bytes_that_are_no_text_are_refused() -> None:
    assert refusal(b"a: 1\nb: \xff").place.line == 2
    assert "NUL" in refusal(b"a: 1\nb: \0").message


@pytest.mark.row("F-46")
def test_a_file_beyond_the_limit_is_refused_before_it_is_parsed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert value_of("# " + "x" * (yaml_reader.MAX_BYTES - 10)) is None
    monkeypatch.setattr(yaml_reader, "MAX_BYTES", 10)
    assert value_of("[a, b, c]") == ["a", "b", "c"]
    assert "too large" in refusal("no: [ YAML }").message


def test_several_slips_are_reported_together() -> None:
    with pytest.raises(ContractMistake) as caught:
        read_yaml(b"a: 1\na: 2\nb: !x 3\nc: .inf", "c.yaml")
    assert [problem.place.line for problem in caught.value.problems] == [2, 3, 4]


def test_a_flood_of_slips_is_cut() -> None:
    with pytest.raises(ContractMistake) as caught:
        read_yaml(b"a: 1\n" * 5000, "c.yaml")
    assert len(caught.value.problems) == 50


def answered(text: str) -> bool:
    """Whether the text is a value, or a mistake of which every problem names its fix."""
    try:
        value_of(text)
    except ContractMistake as mistake:
        return all(problem.fix for problem in mistake.problems)
    return True


def objection(text: str) -> str:
    """What is wrong with a text; empty if it is a value."""
    try:
        value_of(text)
    except ContractMistake as mistake:
        return str(mistake)
    return ""


def aliased(levels: int, width: int) -> str:
    """Lists of which each holds the one before it so many times."""
    lines = ["a0: &a0 [x]"]
    for level in range(1, levels):
        lines.append(f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * width)}]")
    return "\n".join(lines)


@pytest.mark.row("F-46")
@pytest.mark.parametrize(
    ("limit", "most", "text"),
    [
        ("MAX_NODES", 30, aliased(3, 4)),
        ("MAX_NODES", 10, "\n".join(f"k{at}: v" for at in range(6))),
        ("MAX_DEPTH", 4, aliased(5, 1)),
        ("MAX_DEPTH", 4, "[[[[[ }"),
        ("MAX_DEPTH", 4, "a: {b: {b: {b: {b: 1}}}}"),
        ("MAX_DEPTH", 4, "? ? ? ? a"),
        ("MAX_DEPTH", 4, "- - - - a"),
        ("MAX_ALIASES", 3, "a: &x 1\nb: [*x, *x, *x, *x]"),
    ],
    ids=["aliased", "wide", "deep-aliases", "brackets", "maps", "keys", "dashes", "aliases"],
)
def test_what_could_grow_is_refused_at_a_lower_limit(
    limit: str, most: int, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before what follows is read."""
    with monkeypatch.context() as patch:
        patch.setattr(yaml_reader, limit, most)
        assert "beyond reason" in refusal(text).message
    assert "beyond reason" not in objection(text)


@pytest.mark.row("F-46")
@pytest.mark.parametrize(
    "text",
    [
        'a: "' + "x" * 5000 + '"',
        "a: |\n" + " x\n" * 5000,
        "a: " + "1" * 5000,
        "%YAML " + "1" * 5000,
        "a:" * 5000,
        "#" * 5000,
        "\n" * 5000,
        "a: &" + "x" * 5000 + " 1",
    ],
    ids=["quoted", "block", "digits", "version", "colons", "comment", "lines", "anchor"],
)
def test_long_texts_are_answered(text: str) -> None:
    assert answered(text)


@pytest.mark.row("F-46")
def test_a_tag_that_names_a_module_imports_nothing() -> None:
    assert "this" not in sys.modules
    refusal("a: !!python/name:this.s ''\nb: !!python/module:this ''")
    refusal("_target_: !!python/object:this.s {}")
    assert "this" not in sys.modules


@settings(max_examples=times(75, 300), deadline=None)
@given(st.text(alphabet="[]{}:,-?&*!|>'\"%@` \n\tab1#.<~\\", max_size=40))
def test_any_text_is_a_value_or_a_mistake(text: str) -> None:
    assert answered(text)


scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**12), 10**12),
    st.floats(allow_nan=False, allow_infinity=False, width=16),
    st.sampled_from(["a", "yes", "5", "null", "2e-5", "", " x "]),
)


@given(st.dictionaries(st.sampled_from(["a", "b"]), st.lists(scalars, max_size=3), max_size=2))
def test_a_shown_value_reads_back(value: dict[str, Plain]) -> None:
    shown = yaml_value_text(value)
    if value and len(shown) < 80 and "nothing" not in shown:
        assert read_yaml(shown.encode(), "c.yaml").value == value
