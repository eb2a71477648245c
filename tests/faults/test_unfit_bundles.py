"""Bundles whose hashes are right and whose content is not: refused by name before a row is read,
and never a prediction that is no number."""

from __future__ import annotations

import copy
import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from command import CONTRACT, command, inside, tree, with_layers, write_project
from faults.tiers import times
from trainwright.core.files import hash_file
from trainwright.tracking.checksums import write_checksums
from trainwright.tracking.identity import read_identity
from trainwright.tracking.run_folder import RunFolder

pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.row("F-63")]

QUICK = CONTRACT.replace("target: 0.6", "target: 0.6\n  resamples: 100")
CONTRACTS = {
    "trees": QUICK,
    "linear": QUICK.replace("kind: boosting\n  max_trees: 5", "kind: linear"),
    "network": with_layers("[8]", QUICK) + "training: {num_epochs: 1, batch_size: 64}\n",
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bundles")
    for name, contract in CONTRACTS.items():
        write_project(folder, contract)
        with inside(folder):
            assert command("train", "small.yaml", "--run", name).code in (0, 3)
    return folder


@pytest.fixture
def here(project: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(project, tmp_path / "project"))


def seal(run: Path) -> None:
    """Write the hashes of the run anew, as one does who knows the format."""
    manifest = run / "bundle" / "bundle.json"
    content = json.loads(manifest.read_bytes())
    for name in content["files"]:
        path = manifest.with_name(name)
        content["files"][name] = {"sha256": hash_file(path), "size_bytes": path.stat().st_size}
    manifest.write_text(json.dumps(content))
    folder = RunFolder(run)
    write_checksums(folder, read_identity(folder))


def refused(here: Path, run: str) -> str:
    """What `predict` says of the run, which it must not use."""
    seal(here / "runs" / run)
    before = tree(here)
    with inside(here):
        ran = command("predict", run, "rows.csv", "-o", "out.csv")
    assert ran.code == 2, ran.out + ran.err
    assert tree(here) == before
    return ran.err


def _set(*keys: Any, to: Any) -> Callable[[Any], None]:
    def change(value: Any) -> None:
        for key in keys[:-1]:
            value = value[key]
        value[keys[-1]] = to

    return change


@pytest.mark.parametrize(
    ("run", "file", "change", "says"),
    [
        ("trees", "target.json", _set("names", to=["no", "yes", "yes"]), "a class twice"),
        ("trees", "target.json", _set("names", to=["a", "b", "c"]), "the shape"),
        ("trees", "target.json", _set("names", 0, to=5), "names.0 holds 5"),
        ("trees", "target.json", _set("positive", to=7), "a positive class"),
        ("trees", "target.json", _set("column", to=[]), "column holds []"),
        ("trees", "features.json", _set("columns", 0, "distinct", to=[]), "distinct holds []"),
        ("trees", "features.json", _set("cleaning", "missing", 0, to=5), "missing.0 holds 5"),
        ("trees", "features.json", _set("numbers", "fill", to=[0.0]), "other lengths"),
        (
            "network",
            "features.json",
            _set("vocabularies", 0, "kept", to=["a", "b", "c", "d"]),
            "index out of range",
        ),
        ("linear", "linear.json", _set("present", to=[0]), "cannot be read"),
        ("linear", "linear.json", _set("intercept", 0, to="nan"), "intercept holds"),
        ("network", "network.json", _set("outputs", to=3), "cannot be read"),
    ],
)
def test_content_that_does_not_fit(
    here: Path, run: str, file: str, change: Callable[[Any], None], says: str
) -> None:
    path = here / "runs" / run / "bundle" / file
    value = json.loads(path.read_bytes())
    change(value)
    path.write_text(json.dumps(value))
    said = refused(here, run)
    assert says in said
    assert "is not a bundle" in said


@pytest.mark.parametrize("text", ["nan", "inf"])
def test_leaves_that_are_no_numbers(here: Path, text: str) -> None:
    path = here / "runs" / "trees" / "bundle" / "model.txt"
    lines = path.read_text().split("\n")
    at = next(number for number, line in enumerate(lines) if line.startswith("leaf_value="))
    first = lines[at].partition("=")[2].split(" ")[0]
    # As long as the number was: the sizes of the trees stand in the head.
    lines[at] = lines[at].replace(first, text.ljust(len(first), "0")[: len(first)], 1)
    path.write_text("\n".join(lines))
    assert "leaf_value" in refused(here, "trees")


def test_weights_that_are_no_numbers(here: Path) -> None:
    from safetensors.torch import load_file, save_file

    path = here / "runs" / "network" / "bundle" / "network.safetensors"
    weights = load_file(path)
    first = next(name for name, one in weights.items() if one.is_floating_point())
    weights[first].view(-1)[0] = float("nan")
    save_file(weights, path)
    assert "not finite" in refused(here, "network")


def test_a_key_twice_and_a_number_beyond_all(here: Path) -> None:
    path = here / "runs" / "trees" / "bundle" / "target.json"
    text = path.read_text()
    path.write_text(text.replace("{", '{"column": "city",', 1))
    assert "twice" in refused(here, "trees")
    path.write_text(text.replace('"positive": 1', '"positive": 1e999'))
    assert "not finite" in refused(here, "trees")


VALUES = [None, True, -1, 2**63, 1.5, "", "x", "\ud800", [], {}, [[]], {"kind": "x"}, "a" * 9999]


def spoil(value: Any, draw: random.Random) -> Any:
    """The value with a random part of it changed, dropped or doubled."""
    value = copy.deepcopy(value)
    owner = value
    while True:
        keys = list(owner) if isinstance(owner, dict) else list(range(len(owner)))
        key = draw.choice(keys)
        below = owner[key]
        if not isinstance(below, dict | list) or not below or draw.random() < 0.2:
            break
        owner = below
    match draw.randrange(4):
        case 0:
            del owner[key]
        case 1 if isinstance(owner, list):
            owner.append(copy.deepcopy(below))
        case _:
            owner[key] = copy.deepcopy(draw.choice(VALUES))
    return value


def test_random_content_never_ends_in_a_traceback(
    project: Path, tmp_path: Path, figure: Callable[..., None]
) -> None:
    draw, wrong, count = random.Random(7), [], times(24, 2000)
    for number in range(count):
        here = Path(shutil.copytree(project, tmp_path / "p"))
        run = draw.choice(sorted(CONTRACTS))
        path = draw.choice(sorted((here / "runs" / run / "bundle").glob("*.json")))
        path.write_text(json.dumps(spoil(json.loads(path.read_bytes()), draw)))
        if path.name != "bundle.json":
            seal(here / "runs" / run)
        verb = draw.choice([("predict", run, "rows.csv", "-o", "o"), ("evaluate", run, "rows.csv")])
        verb = verb if verb[0] == "evaluate" else (*verb[:-1], "out.csv")
        try:
            with inside(here):
                ran = command(*verb)
            if ran.code not in (0, 2, 3, 13) or "nan" in ran.out.lower():
                wrong.append(f"{number}: {verb[0]} {run} {path.name}: exit code {ran.code}")
        except Exception as error:
            wrong.append(f"{number}: {verb[0]} {run} {path.name}: {error!r:.200}")
        shutil.rmtree(here)
    figure(unfit_bundles=count)
    assert not wrong, "\n".join(wrong)
