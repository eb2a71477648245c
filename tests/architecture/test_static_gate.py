"""What the source never holds: ways to run code from a file, paths of a machine, overlong parts."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from source_trees import SOURCES, nodes_of

ROOT = Path(__file__).resolve().parents[2]

MODULES = {"pickle", "_pickle", "cloudpickle", "dill", "joblib", "marshal", "shelve", "yaml"}
"""Each reads a file by running what stands in it; `yaml` is PyYAML, ruamel.yaml reads contracts."""

CALLS = {"eval", "exec", "hasattr", "torch.load", "yaml.load"}
LAST_WORDS = {call.rpartition(".")[2] for call in CALLS}
ATTRIBUTES = {("torch", "load")}
SAFE_VALUES = {"allow_pickle": ("False",), "typ": ("'safe'", "'rt'")}
"""What an argument of this name may be, in any call."""

LOCKED_IN = ROOT / "src" / "trainwright" / "checkpoint" / "foreign" / "torch_import_child.py"
"""The one file that may unpickle, in a process of its own that can do nothing else."""

ALLOWED = {
    (LOCKED_IN, "call of torch.load"),
    (ROOT / "src" / "trainwright" / "model" / "imported" / "load_target.py", "call of exec"),
}
"""Beside it the door of `kind: imported`, which asks for the permission of the command."""

MOST_LINES_OF_A_FILE = 400
MOST_LINES_OF_A_FUNCTION = 60

HOME = re.compile(r"(?<![\w.])/(?:home|root|work|Users)/\w")


def names_imported(node: ast.Import | ast.ImportFrom) -> Iterator[str]:
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield from (name for name in MODULES if alias.name.partition(".")[0] == name)
        return
    module = node.module or ""
    yield from (name for name in MODULES if not node.level and module.partition(".")[0] == name)
    yield from (f"{module}.{a.name}" for a in node.names if (module, a.name) in ATTRIBUTES)


def refused(nodes: Iterable[ast.AST]) -> Iterator[tuple[int, str]]:
    for node in nodes:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from ((node.lineno, f"import of {name}") for name in names_imported(node))
        elif isinstance(node, ast.Call):
            if last_word(node.func) in LAST_WORDS and (called := ast.unparse(node.func)) in CALLS:
                yield node.lineno, f"call of {called}"
            for keyword in node.keywords:
                if keyword.arg not in SAFE_VALUES:
                    continue
                written = ast.unparse(keyword.value)
                if written not in SAFE_VALUES[keyword.arg]:
                    yield node.lineno, f"{keyword.arg}={written}"


def last_word(called: ast.expr) -> str:
    """Of the name that is called; other expressions than names are called nothing."""
    if isinstance(called, ast.Attribute):
        return called.attr
    return called.id if isinstance(called, ast.Name) else ""


@pytest.mark.parametrize(
    "text",
    [
        "import pickle",
        "from joblib import dump",
        "import yaml",
        "from torch import load",
        "torch.load(path)",
        "np.load(path, allow_pickle=True)",
        "np.load(path, allow_pickle=given)",
        "yaml.load(text)",
        "YAML(typ='unsafe')",
        "eval(text)",
        "exec(text)",
        "hasattr(model, 'fit')",
    ],
)
def test_the_gate_sees(text: str) -> None:
    assert list(refused(ast.walk(ast.parse(text))))


@pytest.mark.parametrize(
    "text",
    [
        "model.eval()",
        "np.load(path, allow_pickle=False)",
        "YAML(typ='safe')",
        "from torch import nn",
    ],
)
def test_the_gate_lets_pass(text: str) -> None:
    assert not list(refused(ast.walk(ast.parse(text))))


def test_no_file_runs_code_that_it_reads() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {what}"
        for path in SOURCES
        for line, what in refused(nodes_of(path))
        if (path, what) not in ALLOWED
    ]
    assert not found, "\n".join(found)


def test_the_one_file_that_unpickles_is_locked_in_and_imported_by_none() -> None:
    text = LOCKED_IN.read_text(encoding="utf-8")
    body = text[text.index("def main") :]
    calls = [line for line in body.splitlines() if "torch.load(" in line]
    assert len(calls) == 2
    assert all("weights_only=True" in line for line in calls)
    assert body.index("lock_down(limits)") < body.index("torch.load(stream")
    importers = [
        path
        for path in SOURCES
        for node in nodes_of(path)
        if isinstance(node, ast.Import | ast.ImportFrom)
        and "torch_import_child" in ast.unparse(node)
    ]
    assert importers == []


def test_no_file_is_too_long() -> None:
    lengths = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in SOURCES}
    found = [
        f"{path.relative_to(ROOT)}: {lines} lines"
        for path, lines in lengths.items()
        if lines > MOST_LINES_OF_A_FILE
    ]
    assert not found, "\n".join(found)


def test_no_function_is_too_long() -> None:
    functions = [
        (path, node)
        for path in SOURCES
        for node in nodes_of(path)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"
        for path, node in functions
        if (node.end_lineno or node.lineno) - node.lineno + 1 > MOST_LINES_OF_A_FUNCTION
    ]
    assert functions
    assert not found, "\n".join(found)


def tracked_files() -> list[Path]:
    """The files that git has or would take; skips the test where this is not a checkout."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    paths = [ROOT / name for name in done.stdout.split("\0") if name]
    return [path for path in paths if path.is_file()]


def test_no_tracked_file_names_a_path_of_a_machine() -> None:
    found = []
    for path in tracked_files():
        data = path.read_bytes()
        if b"\0" in data:
            continue
        lines = data.decode("utf-8").splitlines()
        found += [
            f"{path.relative_to(ROOT)}:{number}: {line.strip()[:80]}"
            for number, line in enumerate(lines, start=1)
            if HOME.search(line)
        ]
    assert not found, "\n".join(found)


def test_the_path_pattern_sees_a_home_folder() -> None:
    assert HOME.search("read /" + "home/ann/data.csv")
    assert not HOME.search("https://example.org/home/page")


FOREIGN_WORDS = re.compile(
    r"\b(whoever|somebody|nobody|everybody|left[ -]out|tells of|makes of"
    r"|the wall(?![ -](clock|time)))\b",
    re.I,
)
"""Words that make a text read as translated, or a metaphor for a term of the field."""


def test_texts_are_written_in_the_words_of_the_field() -> None:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    found = [
        f"{name}:{number}: {match[0]}"
        for path in (*SOURCES, *pages)
        for name in [path.relative_to(ROOT).as_posix()]
        if not name.startswith(("docs/decisions/", "tests/"))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if (match := FOREIGN_WORDS.search(line))
    ]
    assert not found, "\n".join(found)
