"""Integrity of saved trees."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from trainwright.core.files import Json, read_json
from trainwright.core.hashing import hash_value
from trainwright.doctor.check_result import WRONG_SHAPE, Checked, broken, whole

TREES = re.compile(r"trees-([0-9]{10})\.json")


def verify_trees(folder: Path, lineage: str = "") -> Iterator[Checked]:
    """Check every file; each must have the `lineage` of its run, if known."""
    found = [path for path in folder.glob("trees-*") if TREES.fullmatch(path.name)]
    for path in sorted(found):
        try:
            wrong = _wrong(path, lineage)
        except WRONG_SHAPE as error:
            wrong = f"unreadable: {error!r:.200}"
        if wrong:
            yield broken(path.name, wrong)
        else:
            yield whole(path.name, f"{path.stat().st_size:,} bytes")


def _wrong(path: Path, lineage: str) -> str:
    """The problem of a file, or empty."""
    if path.is_symlink() or not path.is_file():
        return "a link, or not a file"
    outer: Json = read_json(path)
    content = outer["content"]
    if hash_value(content) != outer["sha256"]:
        return "its hash does not match its content"
    if lineage and content["lineage"] != lineage:
        return "it belongs to another run"
    grown = content["grown"]
    if path.name != f"trees-{grown['trees']:010d}.json":
        return f"it holds {grown['trees']} trees"
    added = len(re.findall(r"^Tree=[0-9]+$", grown["text"], re.MULTILINE))
    if not added or added % grown["trees"]:
        return f"its text holds {added} trees, not {grown['trees']} a class"
    return ""
