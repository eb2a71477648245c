"""Runs every test that stands for a row of the fault matrix, and writes `docs/reliability.md`.

The page is made from the results of the tests alone: what they counted, how they ended, what was
skipped and why. Exits with 1 if a row failed or was skipped.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import final
from xml.etree import ElementTree

from matrix import GOALS, INTRODUCTION, ROWS
from trainwright.core.faultpoints import FAULT_POINTS
from trainwright.core.files import hash_value
from trainwright.core.formatting import many

ROOT = Path(__file__).resolve().parents[1]
_ALL_PASSED, _SOME_FAILED = 0, 1
PAGE = ROOT / "docs" / "reliability.md"


@final
@dataclass
class Row:
    """What the tests of one row gave."""

    passed: int = 0
    failed: list[str] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    counts: dict[str, float] = field(default_factory=dict)

    def count(self, text: str) -> None:
        """Take in `name=number`: a sum, or the largest of what begins with `most`."""
        name, _, number = text.partition("=")
        before, now = self.counts.get(name, 0.0), float(number)
        self.counts[name] = max(before, now) if name.startswith("most") else before + now

    @property
    def state(self) -> str:
        """One word, and what was skipped."""
        if self.failed:
            return f"**failed**: {', '.join(self.failed)}"
        if self.skipped:
            return "; ".join(f"**skipped** {name}: {why}" for name, why in self.skipped.items())
        return "true" if self.passed else "**not covered**"

    @property
    def figure(self) -> str:
        """The counts in words."""
        counted = [f"{name.replace('_', ' ')} {count:,.0f}" for name, count in self.counts.items()]
        return " · ".join([*counted, many(self.passed, "test")])

    def to_json(self) -> object:
        """Everything, for the hash on the page."""
        return [self.passed, self.failed, self.skipped, self.counts]


def read_results(path: Path) -> dict[str, Row]:
    """The rows of a JUnit file that pytest wrote."""
    rows = {name: Row() for name in ROWS}
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        said = [(one.get("name"), one.get("value", "")) for one in case.iter("property")]
        for name in dict.fromkeys(value for key, value in said if key == "row"):
            row = rows.setdefault(name, Row())
            test = case.get("name", "")
            if case.find("failure") is not None or case.find("error") is not None:
                row.failed.append(test)
            elif (skipped := case.find("skipped")) is not None:
                row.skipped[test.partition("[")[0]] = skipped.get("message", "")
            else:
                row.passed += 1
                for key, value in said:
                    if key == "figure":
                        row.count(value)
    return rows


def page(rows: dict[str, Row], tier: int, seconds: float) -> str:
    """The whole page."""
    return "\n".join([INTRODUCTION, *_measured(rows, tier, seconds), *_goals(rows), *_table(rows)])


def _measured(rows: dict[str, Row], tier: int, seconds: float) -> Iterator[str]:
    date = datetime.now(UTC).date().isoformat()
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True
    ).stdout.strip()
    digest = hash_value({name: row.to_json() for name, row in rows.items()})
    yield (
        f"Run on {date}, tier {tier}, commit {commit or 'unknown'}, {os.cpu_count()} cores "
        f"({platform.machine()}), in {seconds / 60:.0f} minutes. SHA-256 of the results: "
        f"`{digest[:16]}`.\n"
    )


def _goals(rows: dict[str, Row]) -> Iterator[str]:
    yield "## In short\n"
    yield "| what is promised | measured |\n| --- | --- |"
    for promise, names in GOALS.items():
        together = Row()
        for name in names:
            row = rows[name]
            together.passed += row.passed
            together.failed += row.failed
            together.skipped |= row.skipped
            for count, number in row.counts.items():
                together.count(f"{count}={number}")
        good = together.state == "true"
        yield f"| {promise} | {together.figure if good else together.state} |"
    yield ""


def _table(rows: dict[str, Row]) -> Iterator[str]:
    yield "## The matrix\n"
    yield "| row | what is injected | what must follow | measured | state |"
    yield "| --- | --- | --- | --- | --- |"
    for name, (injected, follows) in ROWS.items():
        row = rows[name]
        figure = row.figure if row.passed else ""
        yield f"| {name} | {injected} | {follows} | {figure} | {row.state} |"
    yield "\n## The fault points\n"
    yield "A process is killed at each of these, by `TRAINWRIGHT_FAULT=point:nth:kill`.\n"
    yield "| point | what has happened when it is reached |\n| --- | --- |"
    yield from (f"| `{point}` | {what} |" for point, what in FAULT_POINTS.items())
    yield ""


def run_tests(tier: int, results: Path, more: Sequence[str]) -> bool:
    """Every test with a row; their results as JUnit. Whether every test was made."""
    rows = "row" if tier else "row and not slow"
    words = ["-m", "pytest", "-n", "2", "-m", rows, "--timeout", "1500", "-q"]
    words += ["-p", "no:cacheprovider", f"--junitxml={results}", *more]
    environment = {**os.environ, "TRAINWRIGHT_TIER": str(tier)}
    done = subprocess.run([sys.executable, *words], cwd=ROOT, env=environment, check=False)
    return done.returncode in (_ALL_PASSED, _SOME_FAILED)


def main() -> None:
    """Run and print; with `--write` into the docs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tier", type=int, default=1, choices=(0, 1))
    parser.add_argument("--write", action="store_true", help="write docs/reliability.md")
    parser.add_argument("more", nargs="*", help="words for pytest")
    given = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder) / "results.xml"
        if not run_tests(given.tier, results, given.more):
            sys.exit("the tests did not come to their end: nothing is written")
        rows = read_results(results)
    text = page(rows, given.tier, time.monotonic() - began)
    if given.write:
        PAGE.write_text(text, encoding="utf-8")
    print(text)
    for name, row in rows.items():
        for test, why in row.skipped.items():
            print(f"skipped: {name} {test}: {why}", file=sys.stderr)
        for test in row.failed:
            print(f"failed: {name} {test}", file=sys.stderr)
    sys.exit(any(row.failed or row.skipped for row in rows.values()))


if __name__ == "__main__":
    main()
