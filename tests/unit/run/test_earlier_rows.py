"""Rows that an earlier run was trained on: refused where it knows them, and said where it does
not."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from trainwright.contract.sections.model.vision_language import Taken, VisionLanguage
from trainwright.core.errors import Mistake
from trainwright.run import earlier_rows
from trainwright.run.earlier_rows import check_unseen_rows


def started(bundle: Path) -> VisionLanguage:
    taken = Taken(part="all", weights="0", folder=str(bundle))
    return VisionLanguage(kind="vision_language", start="earlier", taken=taken)


class Rows(SimpleNamespace):
    def __len__(self) -> int:
        return 3


def prepared() -> Any:
    parts = {
        name: Rows(name=name, inputs=SimpleNamespace(noun="captions"))
        for name in ("validation", "test")
    }
    return SimpleNamespace(features=None, **parts)


def test_a_bundle_without_its_run_is_said_to_be_unchecked(tmp_path: Path) -> None:
    (note,) = check_unseen_rows(started(tmp_path / "bundle"), prepared())
    assert "was not checked" in note
    assert str(tmp_path / "bundle") in note


@pytest.mark.parametrize("part", ["validation", "test"])
def test_a_run_that_knows_its_rows_refuses_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    monkeypatch.setattr(earlier_rows, "is_run_folder", lambda _: True)

    def mask(found: Rows, *_: object) -> Any:
        return np.array([found.name == part, False, False])

    monkeypatch.setattr(earlier_rows, "trained_mask", mask)
    with pytest.raises(Mistake, match=f"images of the {part} part"):
        check_unseen_rows(started(tmp_path / "bundle"), prepared())
    monkeypatch.setattr(earlier_rows, "trained_mask", lambda *_: np.zeros(3, np.bool_))
    assert check_unseen_rows(started(tmp_path / "bundle"), prepared()) == []
