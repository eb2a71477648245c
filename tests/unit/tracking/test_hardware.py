from __future__ import annotations

from importlib.metadata import distributions

from trainwright.tracking.installation import list_packages


def test_the_packages_are_those_of_the_standard_library() -> None:
    named = {f"{one.name.lower()}=={one.version}" for one in distributions() if one.name}
    assert list_packages() == tuple(sorted(named))
    assert any(package.startswith("numpy==") for package in named)
