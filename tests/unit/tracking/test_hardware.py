from __future__ import annotations

import platform
import subprocess
from importlib.metadata import distributions
from typing import NoReturn

import pytest

from trainwright.tracking.environment import describe_environment, list_packages


def test_the_packages_are_those_of_the_standard_library() -> None:
    named = {f"{one.name.lower()}=={one.version}" for one in distributions() if one.name}
    assert list_packages() == tuple(sorted(named))
    assert any(package.startswith("numpy==") for package in named)


def test_the_platform_is_that_of_the_standard_library_without_a_program_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    expected = platform.platform()

    def refuse(*words: object, **options: object) -> NoReturn:
        raise AssertionError(f"started {words}")

    monkeypatch.setattr(platform, "_uname_cache", None)
    monkeypatch.setattr(platform, "_platform_cache", {})
    monkeypatch.setattr(subprocess, "Popen", refuse)
    assert describe_environment()["platform"] == expected
