"""What the source imports is declared, what is declared is used, and our own pins meet it."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from source_trees import SOURCES, nodes_of

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

IMPORT_NAMES = {
    "mlflow-skinny": "mlflow",
    "nvidia-ml-py": "pynvml",
    "pillow": "PIL",
    "ruamel-yaml": "ruamel",
    "scikit-learn": "sklearn",
    "xgboost-cpu": "xgboost",
}
"""Where a package is not imported under its own name."""

ONLY_TESTING = {"hypothesis", "pytest"}
"""What the suites that `testing` ships may import beside the dependencies."""


def requirements(lines: list[str]) -> dict[str, Requirement]:
    """By name, without those by which one extra includes others."""
    parsed = [Requirement(line) for line in lines]
    others = [one for one in parsed if one.name != PROJECT["name"]]
    return {canonicalize_name(requirement.name): requirement for requirement in others}


CORE = requirements(PROJECT["dependencies"])
EXTRAS = {extra: requirements(lines) for extra, lines in PROJECT["optional-dependencies"].items()}


def pins() -> dict[str, str]:
    text = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    pairs = [line.split("==") for line in lines]
    assert all(len(pair) == 2 for pair in pairs), "every line is an exact pin, and nothing else"
    return {canonicalize_name(name): version for name, version in pairs}


def imported() -> set[str]:
    """The top-level packages that the source imports, at whatever depth."""
    found = set()
    for path in SOURCES:
        for node in nodes_of(path):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                found.add((node.module or "").partition(".")[0])
    return found - set(sys.stdlib_module_names) - {"trainwright"}


def import_names(listed: dict[str, Requirement]) -> set[str]:
    return {IMPORT_NAMES.get(name, name.replace("-", "_")) for name in listed}


LIBRARIES = ("torch", "eightbit", "text", "transformers", "xgboost", "catboost")
"""Extras whose packages the source imports by name."""


def declared_names() -> set[str]:
    extras = (import_names(EXTRAS[extra]) for extra in LIBRARIES)
    return import_names(CORE).union(*extras)


def test_the_source_imports_only_what_is_declared() -> None:
    declared = declared_names()
    declared |= set().union(
        *(
            import_names(EXTRAS[name])
            for name in ("sql", "large", "web", "onnx", "adapters", "tune")
        )
    )
    declared |= set().union(
        *(import_names(EXTRAS[name]) for name in ("mlflow", "tensorboard", "wandb", "nvml"))
    )
    declared |= import_names(EXTRAS["postgresql"]) | import_names(EXTRAS["ray"])
    # fsspec loads s3fs, gcsfs and the like by the scheme of a URL.
    declared |= {"fsspec"} & import_names(EXTRAS["s3"])
    assert imported() - ONLY_TESTING <= declared


def test_every_dependency_is_imported() -> None:
    declared = declared_names()
    assert declared <= imported()


def test_every_declared_range_holds_its_pin() -> None:
    pinned = pins()
    for listed in (CORE, *EXTRAS.values()):
        for name, requirement in listed.items():
            assert requirement.specifier.contains(pinned[name]), f"{requirement} but {pinned[name]}"


def test_the_pins_name_no_index_and_no_local_build() -> None:
    for name, version in pins().items():
        assert re.fullmatch(r"[0-9][0-9A-Za-z.]*", version), f"{name}=={version}"


def test_every_dependency_has_its_reason() -> None:
    record = (ROOT / "docs" / "decisions" / "0001-dependencies.md").read_text(encoding="utf-8")
    names = {name for listed in (CORE, *EXTRAS.values()) for name in listed}
    reasons = {
        canonicalize_name(match)
        for line in record.splitlines()
        if line.startswith("| `")
        for match in re.findall(r"`([^`]+)`", line.split("|")[1])
    }
    assert names == reasons
