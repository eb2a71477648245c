"""Measures of plain code against the ceilings in tests/architecture/ceilings.toml.

`make check` prints them and fails where one is above its ceiling. A ceiling only falls: `--write`
lowers those that are above their figure, and `--set` writes every figure as it is, as is done once
for a new measure. A package of src that the file does not list is measured by itself, against the
figures for new packages.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import math
import re
import subprocess
import sys
import tokenize
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

Json = Any

ROOT = Path(__file__).resolve().parents[1]
CEILINGS = ROOT / "tests" / "architecture" / "ceilings.toml"
EXAMPLE = ROOT / "examples" / "income" / "contract.yaml"

FUNCTIONS = "functions per 1,000 lines"
ONCE = "private functions used once"
EMPTY = "% of assigned names without content"
PARTICIPLES = "functions named by a participle"
TASKS = "comparisons of a task"
PROBES = "probes of kinds and tasks (.is_x, .has_x)"
REFUSALS = "lines that refuse input"
CODECS = "to_json and from_json by hand"
WORDS = "words to avoid in texts"
LINES = "lines of src"
TEST_LINES = "lines of tests"
DOC_WORDS = "words of docs"
PATHS = "dotted paths of the contract"
FIRST_TREE = tuple(f"{unit} before the first tree" for unit in ("calls", "modules", "hops"))
MEASURES = (
    *(FUNCTIONS, ONCE, EMPTY, PARTICIPLES, TASKS, PROBES, REFUSALS, CODECS, WORDS),
    *(LINES, TEST_LINES, DOC_WORDS, PATHS, *FIRST_TREE),
)

ASSIGNED = "assigned names"
RATIOS = {FUNCTIONS: (LINES, 1000), EMPTY: (ASSIGNED, 100)}
"""What a count is divided by, and times what."""

EMPTY_NAME = re.compile(
    r"(?:one|others?|first|each|both|whole|every|some|same|more|rest|own|this|that|there|here|at"
    r"|what|who|why|found|known|said|made|given|kept|told|seen|shown|asked|taken|wanted|written"
    r"|held|left|chosen)"
)
PARTICIPLE = re.compile(
    r"_*(?!(?:need|seed|embed|feed|speed|proceed|exceed)(?:_|$))(?:[a-z]+ed|shown|taken|found|known"
    r"|said|made|given|kept|told|seen|held|left|written|drawn|grown|begun|chosen|done|sent|built"
    r"|bound|spent|thought|brought|caught|taught|lost|meant|met|broken|fallen|frozen|hidden|laid"
    r"|led|got)(?:_|$)"
)
AVOIDED = re.compile(
    r"\b(?:beside|behind|told|tells|looks|somebody|nobody|whoever|everybody|stretch(?:es)?|course"
    r"|surprise|places|moments|anew|makes of|left out|as it is|the wall(?![ -](?:clock|time)))\b",
    re.IGNORECASE,
)
KINDS_AND_TASKS = frozenset({"Feeding", "ModelSection", "Target", "Traits"})
"""Classes whose properties `is_x` and `has_x` are probes."""


def last_name(node: ast.AST) -> str:
    """`task` of `contract.task`."""
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def refuses(node: ast.AST) -> bool:
    """Is this an error that is raised, a problem, or a function that returns problems?"""
    match node:
        case ast.Raise(exc=ast.AST() as error):
            return last_name(getattr(error, "func", error)) != "AssertionError"
        case ast.Call(func=function):
            return last_name(function) in ("Problem", "Refusal", "refuse")
        case ast.FunctionDef(returns=ast.AST() as returned):
            return "Problem" in ast.unparse(returned)
    return False


def count_code(tree: ast.Module, probes: frozenset[str]) -> Counter[str]:
    """Counts of one module, by measure."""
    counts: Counter[str] = Counter()
    uses: Counter[str] = Counter()
    refusing: set[int] = set()
    for node in ast.walk(tree):
        if refuses(node):
            refusing.update(range(getattr(node, "lineno", 0), getattr(node, "end_lineno", 0) + 1))
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                counts[FUNCTIONS] += 1
                counts[CODECS] += name in ("to_json", "from_json")
                is_property = any("property" in last_name(item) for item in node.decorator_list)
                counts[PARTICIPLES] += not is_property and bool(PARTICIPLE.match(name))
            case ast.Name(id=name, ctx=ast.Store()):
                counts[ASSIGNED] += 1
                counts[EMPTY] += bool(EMPTY_NAME.fullmatch(name))
            case ast.Name(id=name):
                uses[name] += 1
            case ast.Attribute(attr=name):
                counts[PROBES] += name in probes
            case ast.Call(func=ast.Attribute(attr=name)):
                counts[PROBES] -= name in probes
            case ast.Compare(left=left, comparators=right):
                sides = [last_name(side) == "task" for side in (left, *right)]
                counts[TASKS] += any(sides) and not all(sides)
            case ast.Match(subject=subject, cases=cases):
                counts[TASKS] += len(cases) * (last_name(subject) == "task")
            case ast.Constant(value=str(text)):
                counts[WORDS] += len(AVOIDED.findall(text))
    private = (node.name for node in tree.body if isinstance(node, ast.FunctionDef))
    counts[ONCE] = sum(name.startswith("_") and uses[name] == 1 for name in private)
    counts[REFUSALS] = len(refusing)
    return counts


def count_files(root: Path) -> Iterator[tuple[Path, Counter[str]]]:
    """Each file of the repository that is measured, with its counts."""
    texts = {path: path.read_text("utf-8") for path in sorted((root / "src").rglob("*.py"))}
    trees = {path: ast.parse(text) for path, text in texts.items()}
    probes = frozenset(
        name
        for tree in trees.values()
        for definition in tree.body
        if isinstance(definition, ast.ClassDef) and definition.name in KINDS_AND_TASKS
        for node in definition.body
        for name in [getattr(node, "name", "") or last_name(getattr(node, "target", node))]
        if name.startswith(("is_", "has_"))
    )
    for path, text in texts.items():
        counts = count_code(trees[path], probes)
        counts[TASKS] *= "tasks" not in path.parts
        if any(AVOIDED.search(line.partition("#")[2]) for line in text.splitlines()):
            tokens = tokenize.generate_tokens(io.StringIO(text).readline)
            comments = (token.string for token in tokens if token.type == tokenize.COMMENT)
            counts[WORDS] += sum(len(AVOIDED.findall(comment)) for comment in comments)
        counts[LINES] = len(text.splitlines())
        yield path, counts
    for path in (root / "tests").rglob("*.py"):
        yield path, Counter({TEST_LINES: len(path.read_text("utf-8").splitlines())})
    for path in (root / "docs").rglob("*.md"):
        text = path.read_text("utf-8")
        yield path, Counter({DOC_WORDS: len(text.split()), WORDS: len(AVOIDED.findall(text))})
    schema = root / "examples" / "contract.schema.json"
    contract = json.loads(schema.read_text("utf-8"))
    yield schema, Counter({PATHS: len(contract_paths(contract, contract["$defs"]))})


def contract_paths(part: Json, sections: Json, path: str = "") -> set[str]:
    """Dotted paths of all keys; the variants of a section share theirs."""
    paths: set[str] = set()
    inner = [*part.get("anyOf", ()), *part.get("oneOf", ())]
    inner += [
        part[key] for key in ("items", "additionalProperties") if isinstance(part.get(key), dict)
    ]
    if "$ref" in part:
        inner.append(sections[part["$ref"].rpartition("/")[2]])
    for section in inner:
        paths |= contract_paths(section, sections, path)
    for key, value in part.get("properties", {}).items():
        paths |= {path + key, *contract_paths(value, sections, f"{path}{key}.")}
    return paths


def measure(counts: Mapping[Path, Counter[str]], name: str) -> float:
    """A measure of some files."""
    total = sum(file[name] for file in counts.values())
    if name not in RATIOS:
        return total
    divisor, factor = RATIOS[name]
    return round(factor * total / max(1, sum(file[divisor] for file in counts.values())), 1)


def by_package(
    counts: Mapping[Path, Counter[str]], root: Path, listed: Sequence[str]
) -> dict[str, dict[Path, Counter[str]]]:
    """The files of each new package with its unit tests, and under the empty name all others."""
    new = {folder.name for folder in (root / "src" / "trainwright").iterdir()} - {*listed}
    packages: dict[str, dict[Path, Counter[str]]] = {"": {}}
    for path, file in counts.items():
        parts = path.relative_to(root).parts
        inside = len(parts) > 3 and parts[:2] in (("src", "trainwright"), ("tests", "unit"))
        package = parts[2] if inside and parts[2] in new else ""
        packages.setdefault(package, {})[path] = file
    return packages


def compare(counts: Mapping[Path, Counter[str]], root: Path, settings: Json) -> list[str]:
    """Print each measure and its ceiling; a line for each that is above."""
    failures = []
    for package, files in by_package(counts, root, settings["packages"]).items():
        ceilings = settings["ceilings"]
        if package:
            thousands = measure(files, LINES) / 1000
            ceilings = {
                name: goal if name in RATIOS else math.ceil(goal * thousands)
                for name, goal in settings["new"].items()
            }
        for name, ceiling in ceilings.items():
            figure = measure(files, name)
            label = f"{package}: {name}" if package else name
            low = not package and figure < 0.98 * ceiling
            print(f"{label:<48}{figure:>10,}{ceiling:>10,}" + f"  lower it to {figure:,}" * low)
            if figure > ceiling:
                ranked = Counter({path: files[path][name] for path in files}).most_common(3)
                worst = (f"{path.relative_to(root)} ({count:,})" for path, count in ranked if count)
                failures.append(
                    f"{label}: {figure:,}, ceiling {ceiling:,}; most in {', '.join(worst)}"
                )
    return failures


def write_ceilings(path: Path, figures: Mapping[str, float], *, lower_only: bool) -> None:
    """Write figures as ceilings; with `lower_only` those that are below the ceilings there."""
    text = path.read_text("utf-8")
    ceilings = tomllib.loads(text)["ceilings"]
    lines = "".join(
        f'"{name}" = {min(figure, ceilings.get(name, math.inf)) if lower_only else figure}\n'
        for name, figure in figures.items()
    )
    head, _, tail = text.partition("[ceilings]\n")
    path.write_text(f"{head}[ceilings]\n{lines}\n[new]{tail.partition('[new]')[2]}", "utf-8")


def main() -> int:
    """Measure the repository; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="lower ceilings to their figures")
    parser.add_argument("--set", action="store_true", help="set every ceiling to its figure")
    options = parser.parse_args()
    script = Path(__file__).with_name("first_tree.py")
    traced = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    if traced.returncode:
        sys.exit(traced.stderr)
    counts = dict(count_files(ROOT))
    counts[EXAMPLE] = Counter(dict(zip(FIRST_TREE, map(int, traced.stdout.split()), strict=True)))
    settings = tomllib.loads(CEILINGS.read_text("utf-8"))
    if options.write or options.set:
        ours = by_package(counts, ROOT, settings["packages"])[""]
        figures = {name: measure(ours, name) for name in MEASURES}
        # Another machine may make a few more calls.
        figures |= {name: math.ceil(1.01 * figures[name]) for name in FIRST_TREE}
        write_ceilings(CEILINGS, figures, lower_only=options.write)
        settings = tomllib.loads(CEILINGS.read_text("utf-8"))
    failures = compare(counts, ROOT, settings)
    for failure in failures:
        print(f"above its ceiling: {failure}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
