"""A library that is not installed: one error with the pip command, exit code 2, nothing written."""

from __future__ import annotations

import importlib.util
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from command import CONTRACT, command, inside, tree, write_project
from trainwright.contract.sections.model import kinds_with
from trainwright.model.families import FAMILIES
from trainwright.model.library_family import LibraryFamily

LIBRARIES = {
    kind: family
    for kind in kinds_with(lambda traits: traits.trained_by == "library")
    if isinstance(family := FAMILIES[kind], LibraryFamily) and family.extra
}


def hide(patch: pytest.MonkeyPatch, package: str) -> None:
    """As if it were not installed."""
    find = importlib.util.find_spec

    def found(name: str, *rest: str) -> ModuleSpec | None:
        return None if name == package else find(name, *rest)

    patch.setattr("trainwright.core.lazy_imports.find_spec", found)


@pytest.mark.parametrize("kind", LIBRARIES)
def test_training_and_predicting_name_the_extra(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_project(tmp_path, CONTRACT.replace("kind: boosting", f"kind: {kind}"))
    fix = f"pip install 'trainwright[{LIBRARIES[kind].extra}]'"
    with inside(tmp_path):
        assert command("train", "small.yaml", "--run", "whole").code in (0, 3)
        hide(monkeypatch, LIBRARIES[kind].package)
        before = tree(tmp_path)
        for words in (
            ("check", "small.yaml"),
            ("train", "small.yaml", "--run", "other"),
            ("predict", "whole", "rows.csv", "-o", "predictions.csv"),
        ):
            ran = command(*words)
            assert (ran.code, ran.err.count(fix)) == (2, 1), (words, ran.err)
        assert tree(tmp_path) == before
