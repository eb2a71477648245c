"""Paths of keys: what messages name is what `--set` takes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainwright.contract.key_paths import join, names_of
from trainwright.contract.reading.overrides import read_settings
from trainwright.contract.reading.yaml_reader import read_yaml

NAMES = st.text(min_size=1, max_size=8).filter(lambda name: not {'"', "'"} <= set(name))


@given(st.lists(NAMES, min_size=1, max_size=4))
def test_a_path_is_read_back_by_set(names: list[str]) -> None:
    path = join("", *names)
    assert names_of(path) == tuple(names)
    (setting,) = read_settings([f"{path}=1"])
    assert (setting.parts, setting.path) == (tuple(names), path)


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("age", "data.columns.age.kind"),
        ("3", "data.columns.3.kind"),
        ("Größe", "data.columns.Größe.kind"),
        ("capital-gain", "data.columns.capital-gain.kind"),
        ("a.b", 'data.columns."a.b".kind'),
        ("hours worked", 'data.columns."hours worked".kind'),
        ('5" pipe', "data.columns.'5\" pipe'.kind"),
    ],
)
def test_a_name_stands_in_quotes_where_it_must(name: str, path: str) -> None:
    assert join("data.columns", name, "kind") == path


def test_names_with_points_have_places_of_their_own() -> None:
    written = read_yaml(b"a.b: {c: 1}\na: {b.c: 2}\n", "x.yaml")
    assert {path: place.line for path, place in written.places.items() if path} == {
        '"a.b"': 1,
        '"a.b".c': 1,
        "a": 2,
        'a."b.c"': 2,
    }
