"""What is known of a family of models stands in its own folders: no other code names one, and a new
one is added by its files and an entry in each table."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest

from command import NETWORK, write_rows
from deadlines import within
from source_trees import tree_of
from trainwright.contract.sections.model import sections
from trainwright.contract.sections.model.traits import ModelSection
from trainwright.model.families import FAMILIES, LIBRARIES
from trainwright.model.family import NetworkFamily
from trainwright.model.library_family import LibraryFamily, TreeFamily

PACKAGE = Path(__file__).resolve().parents[2] / "src" / "trainwright"

SECTIONS = "trainwright.contract.sections.model."
FAMILY_PACKAGES = tuple(f"trainwright.model.{kind}." for kind in sections())

TABLES = {"contract/sections/model/__init__.py", "model/families.py"}

TOOLS = {
    "evaluation/baselines.py": {"Linear", "fit_linear"},
    "evaluation/experiments/probe.py": {"Linear", "fit_linear"},
    "planner/resolve/mirroring.py": {"Linear", "fit_linear"},
    "planner/init/propose_table.py": {"Boosting"},
}
"""What uses a family as a tool, whatever the contract's model is: the linear baseline, the probe of
experiments, whether mirroring keeps the class of an image, and the proposal of a first model."""


def test_only_the_tables_import_families() -> None:
    found = {
        name: imported for name, tree in outside() if (imported := set(family_names(tree))) != set()
    }
    assert found == TOOLS


def test_nobody_asks_for_a_family_by_its_class() -> None:
    asked = [f"{name}:{line}" for name, tree in outside() for line in class_checks(tree)]
    assert not asked


def test_nobody_asks_for_a_family_by_its_kind() -> None:
    asked = [f"{name}:{line}" for name, tree in outside() for line in kind_checks(tree)]
    assert not asked


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("isinstance(a.model, Gpt)", 1),
        ("isinstance(a, int | Boosting)", 1),
        ("isinstance(a, (int, GptNetwork))", 1),
        ("isinstance(a, nn.Linear)", 0),
        ("match a:\n    case Gpt(width=1) | Boosting():\n        pass", 2),
        ("a.model.kind == 'gpt'", 1),
        ("'gpt' == a.model.kind", 1),
        ("contract.model.kind in ('boosting', 'x')", 1),
        ("match model.kind:\n    case 'gpt':\n        pass", 1),
        ("a.shape.kind == 'linear'", 0),
    ],
)
def test_what_counts_as_asking(source: str, expected: int) -> None:
    imports = (
        f"from {SECTIONS}gpt import Gpt\nfrom {SECTIONS}boosting import Boosting\n"
        "from trainwright.model.gpt.gpt_network import GptNetwork\nfrom torch import nn\n"
    )
    tree = ast.parse(imports + source)
    assert len([*class_checks(tree), *kind_checks(tree)]) == expected


def outside() -> Iterator[tuple[str, ast.Module]]:
    """The modules of the package that belong to no family, without the tables."""
    own = ("contract/sections/model/", *(f"model/{kind}/" for kind in sections()))
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        if name not in TABLES and not name.startswith(own):
            yield name, tree_of(path)


def family_names(tree: ast.Module) -> Iterator[str]:
    """Names that a module imports from the files of a family."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and is_of_family(node.module):
            yield from (alias.asname or alias.name for alias in node.names)


def is_of_family(module: str) -> bool:
    is_section = module in {section.__module__ for section in sections().values()}
    return is_section or f"{module}.".startswith(FAMILY_PACKAGES)


def class_checks(tree: ast.Module) -> Iterator[int]:
    names = {*family_names(tree), *(section.__name__ for section in sections().values())}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("isinstance", "issubclass"):
            classes = {one.id for one in ast.walk(node.args[1]) if isinstance(one, ast.Name)}
            # `nn.Linear` is an attribute of a name, and no family.
            yield from [node.lineno] * bool(classes & names)
        elif isinstance(node, ast.MatchClass) and ast.unparse(node.cls) in names:
            yield node.lineno


def kind_checks(tree: ast.Module) -> Iterator[int]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            sides = (node.left, *node.comparators)
            if any(map(is_model_kind, sides)):
                yield from (node.lineno for one in sides if names_kind(one))
        elif isinstance(node, ast.Match) and is_model_kind(node.subject):
            yield from (case.pattern.lineno for case in node.cases if names_kind(case.pattern))


def is_model_kind(node: ast.expr) -> bool:
    """`model.kind`, or that of what is called a section."""
    if not isinstance(node, ast.Attribute) or node.attr != "kind":
        return False
    return ast.unparse(node.value).rpartition(".")[2] in ("model", "section", "family")


def names_kind(node: ast.AST) -> bool:
    return any(isinstance(one, ast.Constant) and one.value in sections() for one in ast.walk(node))


def test_the_table_of_families_is_complete() -> None:
    assert list(FAMILIES) == list(sections())
    for kind, section in sections().items():
        assert issubclass(section, ModelSection)
        assert section.model_fields["kind"].annotation is not str, kind


@pytest.mark.parametrize("kind", list(sections()))
def test_a_family_is_what_its_traits_say(kind: str) -> None:
    section, family = sections()[kind], FAMILIES[kind]
    traits = section.traits
    assert isinstance(family, NetworkFamily) == (traits.trained_by == "loop")
    assert isinstance(family, LibraryFamily) == (traits.trained_by == "library")
    assert isinstance(family, TreeFamily) == bool(traits.rounds)
    assert {*traits.files, traits.rounds or "kind"} <= section.model_fields.keys()
    assert traits.has_blocks == (section.block_count is not ModelSection.block_count)
    if traits.trained_by == "library":
        assert LIBRARIES[family.scorer_kind] is family


TOY_SECTION = '''
"""`model` of kind `toy_network`."""

from __future__ import annotations

from typing import ClassVar, Literal

from trainwright.contract.sections.model.traits import ModelSection, Traits
from trainwright.contract.sections.section import Count


class ToyNetwork(ModelSection):
    """Two layers with a block between."""

    traits: ClassVar[Traits] = Traits(reads=("table",), has_blocks=True)

    kind: Literal["toy_network"]

    width: Count = 8
    """Units."""

    @property
    def block_count(self) -> int:
        return 1
'''

TOY_FAMILY = '''
"""Family `toy_network`."""

from __future__ import annotations

from trainwright.model.family import NetworkFamily


class ToyNetworkFamily(NetworkFamily):
    def build(self, section, shape):
        from trainwright.model.toy_network.toy_module import ToyModule

        return ToyModule(section.width, shape)

    def blocks(self, network):
        return [network.block]

    def count_layers(self, section):
        return 1
'''

TOY_MODULE = '''
"""Network of the toy."""

import torch
from torch import nn


class ToyModule(nn.Module):
    def __init__(self, width, shape):
        super().__init__()
        self.first = nn.Linear(shape.numeric + len(shape.cardinalities), width)
        self.block = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Dropout(0.2))
        self.last = nn.Linear(width, shape.outputs)

    def forward(self, numeric, categories):
        columns = torch.cat([numeric, categories.to(numeric.dtype)], dim=1)
        return self.last(self.block(self.first(columns)))
'''

LIBRARY_SECTION = '''
"""`model` of kind `toy_library`."""

from __future__ import annotations

from typing import ClassVar, Literal

from trainwright.contract.sections.model.traits import ModelSection, Traits


class ToyLibrary(ModelSection):
    """Shares of the classes."""

    traits: ClassVar[Traits] = Traits(reads=("table",), trained_by="library")

    kind: Literal["toy_library"]
'''

LIBRARY_FAMILY = '''
"""Family `toy_library`."""

from __future__ import annotations

import numpy as np

from trainwright.core.files import read_json, write_json
from trainwright.model.library_family import LibraryFamily, LibraryFit


class ToyShares:
    kind = "toy_shares"

    def __init__(self, shares):
        self.shares = shares

    def score(self, inputs):
        return np.tile(np.asarray(self.shares), (len(inputs), 1))

    def write(self, folder):
        write_json(folder / "toy_shares.json", self.shares)


class ToyLibraryFamily(LibraryFamily):
    scorer_kind = "toy_shares"
    bundle_files = ("toy_shares.json",)

    def describe(self, section):
        return "shares"

    def fit(self, section, job):
        counts = np.bincount(job.train.target, minlength=job.outputs)
        return LibraryFit(ToyShares((counts / counts.sum()).tolist()), "counted")

    def read(self, folder):
        return ToyShares(read_json(folder / "toy_shares.json"))
'''

DRIVER = """
import json, sys

from trainwright.cli.main import main

for words in json.loads(sys.argv[1]):
    sys.argv = ["trainwright", *words]
    try:
        main()
        code = 0
    except SystemExit as ended:
        code = ended.code or 0
    print(json.dumps([words[0], code]), file=sys.stderr)
"""


@pytest.fixture(scope="module")
def extended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package with two more families: their own files, and an entry in each table."""
    root = tmp_path_factory.mktemp("extended")
    shutil.copytree(PACKAGE, root / "trainwright")
    add_family(root, "toy_network", "ToyNetwork", TOY_SECTION, TOY_FAMILY)
    add_family(root, "toy_library", "ToyLibrary", LIBRARY_SECTION, LIBRARY_FAMILY)
    module = root / "trainwright/model/toy_network/toy_module.py"
    module.write_text(TOY_MODULE, encoding="utf-8")
    return root


def add_family(root: Path, kind: str, name: str, section: str, family: str) -> None:
    sections_of, families_of = (root / "trainwright" / table for table in sorted(TABLES))
    (sections_of.parent / f"{kind}.py").write_text(dedent(section), encoding="utf-8")
    own = root / "trainwright/model" / kind
    own.mkdir()
    (own / "__init__.py").write_text('"""A family from the outside."""\n', encoding="utf-8")
    (own / f"{kind}_family.py").write_text(dedent(family), encoding="utf-8")
    add_entry(
        sections_of,
        f"from trainwright.contract.sections.model.{kind} import {name}",
        '    | Annotated[Mlp, Tag("mlp")]',
        f'    | Annotated[{name}, Tag("{kind}")]',
    )
    add_entry(
        families_of,
        f"from trainwright.model.{kind}.{kind}_family import {name}Family",
        '        "mlp": MlpFamily(),',
        f'        "{kind}": {name}Family(),',
    )


def add_entry(table: Path, imported: str, after: str, entry: str) -> None:
    text = table.read_text(encoding="utf-8")
    assert text.count(after) == 1
    text = text.replace(after, f"{after}\n{entry}")
    first = text.index("from trainwright.")
    table.write_text(f"{text[:first]}{imported}\n{text[first:]}", encoding="utf-8")


def run_commands(extended: Path, folder: Path, *commands: str, fault: str = "") -> dict[str, int]:
    """Exit codes of commands, one after the other in one process."""
    words = [command.split() for command in commands]
    done = subprocess.run(
        [sys.executable, "-c", DRIVER, json.dumps(words)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(extended), "TRAINWRIGHT_FAULT": fault},
        capture_output=True,
        text=True,
        check=False,
        timeout=within(120),
    )
    ended = [json.loads(line) for line in done.stderr.splitlines() if line.startswith('["')]
    assert len(ended) == len(commands), done.stderr
    return {command: code for command, (_, code) in zip(commands, ended, strict=True)}


def write_contract(folder: Path, model: str) -> None:
    write_rows(folder / "rows.csv")
    head, _, rest = NETWORK.partition("model:\n  kind: mlp\n  hidden: [16, 8]\n")
    assert rest
    if "library" in model:
        rest = rest[: rest.index("training:")]
    text = f"{head}model: {model}\n{rest}".replace("target: 0.6", "target: 0.1\n  resamples: 100")
    (folder / "contract.yaml").write_text(text, encoding="utf-8")


@pytest.mark.torch
def test_a_network_from_the_outside_trains_resumes_predicts_and_reports(
    extended: Path, tmp_path: Path
) -> None:
    write_contract(tmp_path, "{kind: toy_network, width: 6}")
    memory = "--set training.memory.activation_checkpointing=full"
    cut = f"train contract.yaml --run cut {memory}"
    assert run_commands(extended, tmp_path, cut, fault="step.done:9:term") == {cut: 75}
    resume, whole = "resume cut", f"train contract.yaml --run whole {memory}"
    predict = "predict whole rows.csv -o predictions.csv"
    report = "report whole"
    done = run_commands(extended, tmp_path, resume, whole, predict, report)
    # 3: so few rows may not decide the clauses.
    assert {done[resume], done[whole]} <= {0, 3}, done
    assert {done[predict], done[report]} == {0}, done
    weights = [
        (tmp_path / f"runs/{name}/bundle/network.safetensors").read_bytes()
        for name in ("cut", "whole")
    ]
    assert weights[0] == weights[1]
    assert len((tmp_path / "predictions.csv").read_text().splitlines()) == 301
    assert "toy_network" in (tmp_path / "runs/whole/report.html").read_text(encoding="utf-8")


def test_a_library_from_the_outside_trains_and_predicts(extended: Path, tmp_path: Path) -> None:
    write_contract(tmp_path, "{kind: toy_library}")
    train = "train contract.yaml --run whole"
    predict = "predict whole rows.csv -o predictions.csv"
    done = run_commands(extended, tmp_path, train, predict)
    assert done[train] in (0, 3)
    assert done[predict] == 0
    assert len((tmp_path / "predictions.csv").read_text().splitlines()) == 301
