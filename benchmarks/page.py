"""The page of benchmarks: each script writes its own section of docs/benchmarks.md.

A section stands between two comments that name it; writing it again replaces it and leaves the rest
of the page as it was. A script calls `write_section("loop", "The loop", text, ["torch"])`. What the
tables of several scripts show alike stands here too.
"""

from __future__ import annotations

import platform
import re
import shlex
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from trainwright.tracking.environment import describe_hardware

PAGE = Path(__file__).resolve().parents[1] / "docs" / "benchmarks.md"


def write_section(
    name: str,
    title: str,
    text: str,
    packages: Sequence[str] = ("torch",),
    gpus: Sequence[str] = (),
    page: Path = PAGE,
) -> None:
    """Write the section `name` of the page: its title, the command that made it, its text, and what
    it was measured with.

    A section that the page has not yet comes last. `packages` are the distributions whose versions
    matter, `gpus` the names of the devices used beside the CPU. The caller writes only after a
    whole measurement.
    """
    measured = measured_with(packages, gpus)
    whole = f"## {title}\n\n`{command(sys.argv)}`\n\n{text.strip()}\n\n{measured}"
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


def command(argv: Sequence[str]) -> str:
    """The words that make a section again; places on this machine are left open."""
    words = ["PATH" if Path(word).is_absolute() else word for word in argv[1:]]
    return shlex.join(["python", f"benchmarks/{Path(argv[0]).name}", *words])


def goal(text: str, met: bool) -> str:
    """A goal as tables show it; one that is missed says so."""
    return text if met else f"{text}, missed"


def show_seconds(seconds: float) -> str:
    """Microseconds below ten milliseconds, else milliseconds."""
    return f"{seconds * 1e6:,.0f} µs" if seconds < 1e-2 else f"{seconds * 1e3:,.0f} ms"


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
