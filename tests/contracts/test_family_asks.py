"""What contracts ask of families: each family does it, or the contract is refused before the
training with a fix that names a family that can."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

import numpy as np
import polars as pl
import pytest

from command import command
from faults.tiers import each
from guide import GUIDE
from trainwright.contract.sections.model import sections
from trainwright.core.files import read_json, write_json

ROWS = 240
REFUSED = 2
SMALL: Mapping[str, dict[str, Any]] = {
    "boosting": {"max_trees": 6},
    "xgboost": {"max_trees": 6},
    "catboost": {"max_trees": 6},
    "forest": {"trees": 6},
    "linear": {},
    "neighbours": {},
    "mlp": {"hidden": [8]},
    "tabular_resnet": {"width": 8, "blocks": 1},
    "ft_transformer": {"width": 8, "heads": 2, "layers": 1},
    "auto": {"candidates": ["dummy", "linear"]},
}
"""The families of tables that need nothing but rows, and settings with which they train in a
moment."""

NETWORKS = frozenset({"mlp", "tabular_resnet", "ft_transformer"})
EXTRAS = {"xgboost": "xgboost", "catboost": "catboost"}


@final
@dataclass(frozen=True)
class Ask:
    """Something that a contract may ask, as sections that are merged into a plain contract for the
    target, of its usual task unless another is named; `of_networks` stands in the place of
    `sections` there. `after` are the words of a command that is asked of the trained run. `can` are
    the families that do it."""

    target: str = "label"
    sections: Mapping[str, Any] = field(default_factory=dict)
    of_networks: Mapping[str, Any] | None = None
    after: tuple[str, ...] = ()
    task: str = ""
    can: frozenset[str] = frozenset(SMALL)

    def of(self, kind: str) -> Mapping[str, Any]:
        """What a contract for a family says."""
        is_other = self.of_networks is not None and kind in NETWORKS
        return self.of_networks if is_other and self.of_networks else self.sections


BOOSTED = frozenset({"boosting", "xgboost", "catboost"})
TREES = BOOSTED | {"forest"}
SELECTION = frozenset({"auto"})
ALL = frozenset(SMALL)
QUANTILES = {"metric": {"name": "pinball", "quantiles": [0.1, 0.5, 0.9], "target": "dummy"}}

ASKS: Mapping[str, Ask] = {
    "class weights": Ask(
        sections={"model": {"class_weights": "balanced"}},
        of_networks={"training": {"loss": {"name": "cross_entropy", "class_weights": "balanced"}}},
        can=ALL - SELECTION,
    ),
    "row weights": Ask(
        sections={"data": {"weight": "weight"}}, can=ALL - {"neighbours"} - SELECTION
    ),
    "monotone": Ask("number", {"model": {"monotone": {"x": "increasing"}}}, can=TREES),
    "quantiles": Ask("number", QUANTILES, can=BOOSTED | NETWORKS | {"linear"}),
    "counts": Ask(
        "count",
        {"metric": {"name": "poisson_deviance", "target": "dummy"}},
        can=BOOSTED | NETWORKS | {"linear"},
    ),
    "ordered classes": Ask("grade", {"data": {"order": ["low", "middle", "high"]}}),
    "costs of errors": Ask(
        sections={"metric": {"name": "cost", "costs": {"yes": {"no": 5}, "no": {"yes": 1}}}}
    ),
    "ranking": Ask(
        "count",
        {"data": {"query": "query"}, "metric": {"name": "ndcg", "target": "dummy"}},
        task="ranking",
        can=NETWORKS | {"boosting", "xgboost", "linear"},
    ),
    "several targets": Ask(
        "number",
        {
            "data": {
                "target": ["number", "count"],
                "exclude": ["id", "label", "grade", "weight", "query"],
            },
            "metric": {"name": "r2"},
        },
        can=ALL - {"neighbours"},
    ),
    "folds": Ask(sections={"data": {"split": {"kind": "random", "folds": 3}}}),
    "refit": Ask(sections={"training": {"refit": True}}),
    "seeds": Ask(sections={"training": {"seeds": 2}}, can=ALL - {"neighbours", "linear"}),
    "teacher": Ask(
        sections={"training": {"teacher": {"bundle": "teacher"}}},
        can=ALL - {"neighbours"} - SELECTION,
    ),
    "calibration": Ask(sections={"training": {"calibration": "platt"}}),
    "threshold": Ask(
        sections={"training": {"threshold": "auto"}, "metric": {"name": "f1", "target": 0.1}}
    ),
    "explain": Ask(after=("explain", "RUN")),
    "ONNX": Ask(
        after=("weights", "export", "RUN", "--to", "onnx", "-o", "OUT"),
        can=NETWORKS - {"ft_transformer"},
    ),
    "budget": Ask(sections={"budget": {"hours": 0.1}}),
}


def rows() -> pl.DataFrame:
    draw = np.random.default_rng(0)
    x, z = draw.normal(size=ROWS), draw.normal(size=ROWS)
    number = 2 * x + draw.normal(size=ROWS)
    grade = np.digitize(number, [-1, 1])
    return pl.DataFrame(
        {
            "id": [f"r{at}" for at in range(ROWS)],
            "x": x,
            "z": z,
            "city": draw.choice(["Bern", "Oslo", "Rome"], ROWS),
            "weight": draw.uniform(0.5, 2, ROWS),
            "label": np.where(number > 0, "yes", "no"),
            "number": number,
            "query": [f"q{at // 6}" for at in range(ROWS)],
            "count": draw.poisson(np.exp(0.3 * x)),
            "grade": np.array(["low", "middle", "high"])[grade],
        }
    )


TARGETS = ("label", "number", "count", "grade")
USUAL = {
    "label": ("classification", "roc_auc"),
    "number": ("regression", "rmse"),
    "count": ("regression", "rmse"),
    "grade": ("classification", "quadratic_kappa"),
}


def contract_of(kind: str, ask: Ask) -> dict[str, Any]:
    others = [*(name for name in TARGETS if name != ask.target), "id"]
    asked = ask.of(kind)
    others += [name for name in ("weight", "query") if name not in asked.get("data", {})]
    task, metric = USUAL[ask.target]
    positive = {"positive": "yes"} if ask.target == "label" else {}
    few = {"num_epochs": 2, "batch_size": 32} if kind in NETWORKS else {}
    plain = {
        "name": "asked",
        "task": ask.task or task,
        "data": {"path": "rows.csv", "target": ask.target, "exclude": others, **positive},
        "model": {"kind": kind, **SMALL[kind]},
        "metric": {"name": metric, "target": "dummy", "resamples": 100},
        "training": few,
    }
    merged = {key: {**plain.get(key, {}), **value} for key, value in asked.items()}
    found = {**plain, **merged}
    return {key: value for key, value in found.items() if value != {}}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("asks")
    rows().write_csv(folder / "rows.csv")
    return folder


@pytest.fixture(scope="module")
def teacher(folder: Path) -> Path:
    return trained(folder, "linear", Ask(), "teacher")


def trained(folder: Path, kind: str, ask: Ask, name: str) -> Path:
    ran = asked(folder, kind, ask, name)
    assert ran.code in (0, 3), ran.err
    return folder / "runs" / name


def asked(folder: Path, kind: str, ask: Ask, name: str) -> Any:
    contract = contract_of(kind, ask)
    teaching = contract.get("training", {}).get("teacher")
    if teaching:
        teaching["bundle"] = str(folder / "runs" / "teacher")
    path = folder / f"{name}.json"
    write_json(path, contract)
    return command("train", path, "--runs", folder / "runs", "--run", name)


def cells() -> Iterator[tuple[str, str]]:
    for name in ASKS:
        for kind in SMALL:
            yield kind, name


def marked(cases: Any) -> list[Any]:
    found = []
    for case in cases:
        kind, _ = case.values
        marks = [*case.marks, *([pytest.mark.torch] if kind in NETWORKS else [])]
        found.append(pytest.param(*case.values, marks=marks, id="-".join(case.values)))
    return found


DOES = [(kind, name) for kind, name in cells() if kind in ASKS[name].can]
DOES_NOT = [(kind, name) for kind, name in cells() if kind not in ASKS[name].can]


@pytest.mark.parametrize(("kind", "name"), marked(each(28, DOES, start=6)))
def test_a_family_does_what_is_asked(
    kind: str, name: str, folder: Path, request: pytest.FixtureRequest
) -> None:
    if kind in NETWORKS:
        pytest.importorskip("torch")
    if kind in EXTRAS:
        pytest.importorskip(EXTRAS[kind])
    ask = ASKS[name]
    if name == "teacher":
        request.getfixturevalue("teacher")
    run = trained(folder, kind, ask, f"{kind}-{name.replace(' ', '-')}")
    assert read_json(run / "evaluation.json")["evaluation"]["metrics"]
    if ask.after:
        if "onnx" in ask.after:
            pytest.importorskip("onnxscript")
            pytest.importorskip("onnxruntime")
        ran = command(*words_of(ask, run))
        assert ran.code == 0, ran.err


def words_of(ask: Ask, run: Path) -> list[object]:
    named: Mapping[str, object] = {"RUN": run, "OUT": run.parent / f"{run.name}-out"}
    return [named.get(word, word) for word in ask.after]


@pytest.mark.parametrize(("kind", "name"), marked(each(6, DOES_NOT)))
def test_what_a_family_cannot_do_is_refused_with_one_that_can(
    kind: str, name: str, folder: Path, request: pytest.FixtureRequest
) -> None:
    if kind in NETWORKS:
        pytest.importorskip("torch")
    if kind in EXTRAS:
        pytest.importorskip(EXTRAS[kind])
    ask = ASKS[name]
    run = f"{kind}-{name.replace(' ', '-')}"
    if name == "teacher":
        request.getfixturevalue("teacher")
    if ask.after:
        ran = command(*words_of(ask, trained(folder, kind, Ask(), run)))
    else:
        ran = asked(folder, kind, ask, run)
        assert not (folder / "runs" / run).exists()
    assert ran.code == REFUSED, f"{ran.code}: {ran.out[-300:]} {ran.err[-900:]}"
    said = " ".join(ran.err.split())
    assert "Traceback" not in said
    assert "fix:" in said, said
    advised = set(re.findall(r"[a-z_]+", said.split("expected:", 1)[-1])) & set(SMALL)
    assert advised & ask.can, f"no family that can is named: {said}"


def test_the_page_of_models_says_who_does_what() -> None:
    kinds = [kind for kind in SMALL if kind != "tabular_resnet"]
    head = f"| asked | {' | '.join(f'`{kind}`' for kind in kinds)} |"
    lines = [head, "| --- |" + " --- |" * len(kinds)]
    for name, ask in ASKS.items():
        marks = ["yes" if kind in ask.can else "no" for kind in kinds]
        lines.append(f"| {name} | {' | '.join(marks)} |")
    assert all(("tabular_resnet" in ask.can) == ("mlp" in ask.can) for ask in ASKS.values())
    assert "\n".join(lines) in (GUIDE / "models.md").read_text(encoding="utf-8")


def test_every_family_of_tables_is_asked() -> None:
    of_tables = {kind for kind, one in sections().items() if "table" in one.traits.reads}
    assert of_tables ^ set(SMALL) == {"imported", "pretrained", "auto"}, (
        "they need files of their own"
    )
