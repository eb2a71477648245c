"""A contract with a mistake, what its fix says, and that the contract is mended by it."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any, Literal, final

from advised.following import Values, followed, removed
from made_pictures import write_folder, write_pairs
from mixed_texts import made
from trainwright.contract.reading.overrides import read_settings, set_values
from trainwright.contract.reading.read_contract import ContractText
from trainwright.contract.reading.yaml_reader import ParsedYaml
from trainwright.core.errors import Mistake, Problem
from trainwright.run.prepare.prepare_run import Ready, make_ready
from trainwright.run.request import Request
from trainwright.run.screen import StageTimes, StreamScreen

Base = Literal["table", "network", "text", "images", "encoder", "pairs", "captions", "text_pairs"]
ROWS = 120
LABELS = [("no", "yes")[at * 7 % 3 == 0] for at in range(ROWS)]
NUMBERS = [at * 37 % 101 * 1.5 for at in range(ROWS)]

_TABLE = {"path": "rows.csv", "target": "y"}
_GPT = {"kind": "gpt", "context": 16, "width": 16, "heads": 2, "layers": 1}
CONTRACTS: Mapping[Base, Values] = {
    "table": {"data": _TABLE, "model": {"kind": "linear"}},
    "network": {
        "data": _TABLE,
        "model": {"kind": "mlp", "hidden": [8]},
        "training": {"num_epochs": 2, "batch_size": 32},
    },
    "text": {
        "data": {"kind": "tokens", "path": "notes.txt"},
        "model": _GPT,
        "training": {"num_epochs": 2, "batch_size": 8},
    },
    "encoder": {
        "data": {
            "path": "lines.csv",
            "target": "label",
            "exclude": ["size"],
            "columns": {
                "line": {"kind": "text"},
                "second": {"kind": "text"},
                "third": {"kind": "text"},
            },
        },
        "model": {"architecture": "base"},
        "training": {"num_epochs": 2, "batch_size": 8},
    },
    "pairs": {
        "data": {"kind": "pairs", "path": "pairs.csv"},
        "model": {
            "kind": "dual_encoder",
            "width": 8,
            "image": {"kind": "resnet", "blocks": [1], "width": 4},
            "text": {"kind": "bag", "width": 8},
        },
        "training": {"num_epochs": 2, "batch_size": 8},
    },
    "captions": {
        "data": {"kind": "captions", "path": "pairs.csv"},
        "model": {
            "kind": "vision_language",
            "image": {"kind": "resnet", "blocks": [1], "width": 4},
            "projector": {"grid": 2},
            "decoder": {"kind": "gpt", "layers": 1, "heads": 2, "width": 16, "context": 32},
        },
        "training": {"num_epochs": 2, "batch_size": 8},
    },
    "text_pairs": {
        "data": {"kind": "text_pairs", "path": "asked.csv"},
        "model": {"kind": "bi_encoder", "width": 8, "text": {"kind": "bag", "width": 8}},
        "training": {"num_epochs": 2, "batch_size": 8},
    },
    "images": {
        "data": {"kind": "images", "path": "pictures"},
        "model": {"kind": "resnet", "blocks": [1], "width": 4},
        "training": {"num_epochs": 2, "batch_size": 8},
    },
}


def csv(**changed: list[Any]) -> str:
    """A table of 120 rows with other columns, or other values, as asked."""
    columns: dict[str, list[Any]] = {
        "x": [at * 37 % 101 / 4 for at in range(ROWS)],
        "z": [at * 13 % 17 for at in range(ROWS)],
        "word": [("red", "green", "blue")[at % 3] for at in range(ROWS)],
        "day": [f"2020-{at // 28 + 1:02d}-{at % 28 + 1:02d}" for at in range(ROWS)],
        "y": list(LABELS),
    }
    columns.update(changed)
    rows = zip(*columns.values(), strict=True)
    lines = [",".join(columns), *(",".join(map(str, row)) for row in rows)]
    return "\n".join(lines) + "\n"


def asked(count: int = 60) -> str:
    """A table of questions, of which four have one passage, and a group for each three."""
    lines = (
        f"where is thing {at},shelf {at // 4} of room {at % 4},g{at // 3}" for at in range(count)
    )
    return "\n".join(["query,passage,person", *lines]) + "\n"


def edited(at: int, line: str) -> str:
    """The table with another line."""
    lines = csv().splitlines()
    lines[at] = line
    return "\n".join(lines) + "\n"


@final
@dataclass(frozen=True, slots=True)
class Case:
    """A contract with a mistake: the fix that is said of it, and values that are set.

    `does` holds what a person does who reads an alternative in free words: each is a setting, or
    several, and one that begins with '-' is removed. Other alternatives are read from the fix.
    `rows` and `files` stand in the contract's folder. `leaves` is a part of a problem that the
    advice may leave, for it says that more is to be done.
    """

    fix: str
    settings: tuple[str, ...] = ()
    base: Base = "table"
    does: tuple[str | tuple[str, ...], ...] = ()
    rows: str | bytes = ""
    files: Mapping[str, str | bytes] = field(default_factory=dict)
    leaves: str = "\n"

    def __str__(self) -> str:
        return self.fix[:60]


def write_bases(folder: Path) -> Path:
    """The data of every base."""
    (folder / "rows.csv").write_text(csv())
    (folder / "notes.txt").write_text("\n\n".join(text for _, text in made()))
    write_folder(folder / "pictures", 60, 8)
    write_pairs(folder)
    (folder / "asked.csv").write_text(asked())
    # Imported here: transformers takes seconds.
    from made_image_bases import write_image_base
    from made_texts import write_base, write_columns

    write_columns(folder / "lines.csv")
    write_base(folder / "base")
    write_base(folder / "bare", weights=False)
    write_image_base(folder / "eye", weights=False, num_channels=1)
    (folder / "eye" / "preprocessor_config.json").unlink()
    return folder


def ready_of(values: Values, folder: Path) -> Ready:
    """A contract and its data before a training.

    Raises:
        Mistake: what is wrong with them.
    """
    request = Request(ContractText.of(values, folder))
    return make_ready(request, StageTimes(), StreamScreen(StringIO()))


def problems_of(values: Values, folder: Path) -> list[Problem]:
    """What is wrong with a contract and its data; nothing if it can be trained."""
    try:
        ready_of(values, folder)
    except Mistake as mistake:
        return list(mistake.problems)
    return []


def written(case: Case) -> Values:
    """The contract of a case."""
    return _edited(copy.deepcopy(CONTRACTS[case.base]), case.settings)


def made_folder(case: Case, shared: Path, folder: Path) -> Path:
    """Where the data of a case is."""
    if not case.rows and not case.files:
        return shared
    files = {"rows.csv": case.rows or csv(), **case.files}
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        text = content.encode() if isinstance(content, str) else content
        (folder / name).write_bytes(text)
    return folder


def ways_of(case: Case, values: Values, problem: Problem) -> list[tuple[str, Values]]:
    """Each alternative that can be done, and the contract after it."""
    return [*followed(values, problem), *(_done(values, way, problem) for way in case.does)]


def check_advice(case: Case, shared: Path, folder: Path) -> None:
    """The mistake is there and its fix is said; every alternative that can be done mends it, and
    makes no other mistake."""
    folder = made_folder(case, shared, folder)
    values = written(case)
    found = problems_of(values, folder)
    problem = next((one for one in found if one.fix == case.fix.replace("HERE", str(folder))), None)
    assert problem, f"the fix is not said: {[(one.message, one.fix) for one in found]}"
    known = {(one.path, one.message) for one in found} - {(problem.path, problem.message)}
    ways = ways_of(case, values, problem)
    assert ways, f"{problem.fix!r} of {problem.path} is not done in any way"
    for advice, changed in ways:
        left = problems_of(changed, folder)
        new = [
            one
            for one in left
            if (one.path, one.message) not in known and case.leaves not in one.message
        ]
        assert not new, f"{advice!r} does not mend: {[str(one) for one in new]}"


def _edited(values: Values, edits: Sequence[str]) -> Values:
    for edit in edits:
        if edit.startswith("-"):
            values = removed(values, read_settings([f"{edit[1:]}=0"])[0].parts)
        else:
            after, _ = set_values(ParsedYaml(values, {}), [edit])
            assert isinstance(after.value, dict)
            values = after.value
    return values


def _done(values: Values, way: str | tuple[str, ...], problem: Problem) -> tuple[str, Values]:
    """The contract after an alternative was done by hand, which the fix or its path names."""
    edits = (way,) if isinstance(way, str) else way
    said = f"{problem.path} {problem.fix}"
    for edit in edits:
        path, _, value = edit.removeprefix("-").partition("=")
        names = (path.rpartition(".")[2], path.partition(".")[0], value)
        assert any(name and name in said for name in names), f"{edit!r} is not said: {said!r}"
    return str(way), _edited(values, edits)
