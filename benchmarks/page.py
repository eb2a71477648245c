"""The page of benchmarks: each script writes its own section of docs/benchmarks.md.

A section stands between two comments that name it; writing it again replaces it and leaves the rest
of the page as it was. A script calls `write_section("loop", "The loop", text, ["torch"])`.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from trainwright.tracking.hardware import describe_hardware

PAGE = Path(__file__).resolve().parents[1] / "docs" / "benchmarks.md"


def write_section(
    name: str,
    title: str,
    text: str,
    packages: Sequence[str] = ("torch",),
    gpus: Sequence[str] = (),
    page: Path = PAGE,
) -> None:
    """Write the section `name` of the page: its title, its text, and what it was measured with.

    A section that the page has not yet comes last. `packages` are the distributions whose versions
    matter, `gpus` the names of the devices used beside the CPU. The caller writes only after a
    whole measurement.
    """
    whole = f"## {title}\n\n{text.strip()}\n\n{measured_with(packages, gpus)}"
    page.write_text(with_section(page.read_text(encoding="utf-8"), name, whole), encoding="utf-8")


def with_section(page: str, name: str, section: str) -> str:
    """The text of a page with this section in the place of the one of that name, or last."""
    if not re.fullmatch(r"[a-z][a-z_]*", name):
        raise ValueError(f"{name!r} is no name of a section: a to z and _ only")
    first, last = f"<!-- {name} -->", f"<!-- end of {name} -->"
    block = f"{first}\n\n{section.strip()}\n\n{last}"
    counts = (page.count(first), page.count(last))
    if counts == (0, 0):
        return f"{page.rstrip()}\n\n{block}\n"
    before, _, rest = page.partition(first)
    _, found, after = rest.partition(last)
    if counts != (1, 1) or not found:
        raise ValueError(f"the page has no one section between {first} and {last}")
    return f"{before}{block}{after}"


def measured_with(packages: Sequence[str], gpus: Sequence[str] = ()) -> str:
    """One line: the date, the machine and the versions of these distributions."""
    hardware = describe_hardware(gpus)
    machine = [str(hardware["cpu"]), f"{hardware['cores']} cores", *gpus]
    versions = [f"Python {platform.python_version()}", *(_version_of(name) for name in packages)]
    date = datetime.now(UTC).date().isoformat()
    return f"Measured on {date}: {', '.join(machine)}; {', '.join(versions)}."


def _version_of(package: str) -> str:
    try:
        return f"{package} {version(package)}"
    except PackageNotFoundError:
        return f"{package} missing"
