from __future__ import annotations

from pathlib import Path

import pytest

from command import command, write_project
from trainwright.contract.reading.read_contract import read_contract
from trainwright.contract.rules.tune_rules import FIXED
from trainwright.core.errors import ContractMistake, Problem

SEARCH = """\
data: {path: rows.csv, target: bought}
model: {kind: boosting}
tune:
"""

RATE = "model.learning_rate"
TREES = "    model.kind: [boosting, mlp]\n"


def problems(folder: Path, tune: str) -> list[Problem]:
    file = folder / "c.yaml"
    file.write_text(SEARCH + tune)
    try:
        read_contract(file)
    except ContractMistake as mistake:
        return list(mistake.problems)
    return []


@pytest.mark.parametrize(
    ("axis", "path", "word"),
    [
        ("{low: 0.01, high: 0.3}", "", ""),
        ("{low: 0.01, high: 0.3, scale: log}", "", ""),
        ("[0.01, 0.3]", "", ""),
        ("{values: [0.01, 0.3]}", "", ""),
        ("[]", "", "two ends"),
        ("{low: 0.01}", "", "two ends"),
        ("{high: 0.01}", "", "two ends"),
        ("{low: 0.3, high: 0.01}", ".low", "less than"),
        ("{low: 0.3, high: 0.3}", ".low", "less than"),
        ("{low: 0, high: 0.3, scale: log}", ".low", "above 0"),
        ("{low: -1.0, high: 0.3, scale: log}", ".low", "above 0"),
        ("{values: [0.1], low: 0.01, high: 0.3}", "", "no ends"),
        ("{values: [0.1], scale: log}", "", "no scale"),
    ],
)
def test_an_axis_is_an_interval_or_a_list(tmp_path: Path, axis: str, path: str, word: str) -> None:
    found = problems(tmp_path, f"  over:\n    {RATE}: {axis}\n")
    assert len(found) == bool(word)
    for problem in found:
        assert problem.path == f'tune.over."{RATE}"{path}'
        assert word in problem.message
        assert problem.fix
        assert problem.place.line == 5


@pytest.mark.parametrize(
    ("condition", "word"),
    [
        ("{model.kind: boosting}", ""),
        ("{model.kind: [boosting, mlp]}", ""),
        ("{model.kinds: boosting}", "not searched"),
        ("{model.kind: forest}", "never has"),
        ("{model.kind: [boosting, forest]}", "never has"),
    ],
)
def test_a_condition_names_searched_paths_and_their_values(
    tmp_path: Path, condition: str, word: str
) -> None:
    axis = f"    {RATE}: {{low: 0.01, high: 0.3, only_with: {condition}}}\n"
    found = problems(tmp_path, f"  over:\n{TREES}{axis}")
    assert len(found) == bool(word)
    for problem in found:
        assert word in problem.message
        assert problem.path.startswith(f'tune.over."{RATE}".only_with.')
        assert problem.place.line == 6
    if word == "not searched":
        assert found[0].fix == "write model.kind"


def test_a_condition_on_an_interval_lies_in_it(tmp_path: Path) -> None:
    over = "    model.num_leaves: {low: 4, high: 64}\n"
    for value, count in ((4, 0), (64, 0), (65, 1)):
        axis = f"    {RATE}: {{values: [0.1], only_with: {{model.num_leaves: {value}}}}}\n"
        assert len(problems(tmp_path, f"  over:\n{over}{axis}")) == count


def test_paths_do_not_wait_for_each_other(tmp_path: Path) -> None:
    first = f"    {RATE}: {{values: [0.1, 0.2], only_with: {{model.num_leaves: 4}}}}\n"
    second = f"    model.num_leaves: {{values: [4, 8], only_with: {{{RATE}: 0.1}}}}\n"
    (problem,) = problems(tmp_path, f"  over:\n{first}{second}")
    assert "only with another" in problem.message
    own = f"    {RATE}: {{values: [0.1, 0.2], only_with: {{{RATE}: 0.1}}}}\n"
    (problem,) = problems(tmp_path, f"  over:\n{own}")
    assert problem.found == RATE


@pytest.mark.parametrize(
    ("keys", "path"),
    [
        ("method: grid", f'tune.over."{RATE}"'),
        ("method: cmaes", f'tune.over."{RATE}"'),
        ("method: tpe", ""),
        ("method: gp", ""),
        ("storage: sqlite:///study.db", "tune.storage"),
        ("storage: mysql://host/study", "tune.storage"),
        ("storage: postgresql://host/study", ""),
        ("storage: postgresql+psycopg://host/study", ""),
        ("folds: 5", ""),
    ],
)
def test_a_method_and_a_storage_say_what_they_cannot_do(
    tmp_path: Path, keys: str, path: str
) -> None:
    axis = "[0.1, 0.2]" if "cmaes" in keys else "{low: 0.01, high: 0.3}"
    found = problems(tmp_path, f"  {keys}\n  over:\n    {RATE}: {axis}\n")
    assert [problem.path for problem in found] == ([path] if path else [])


def test_cmaes_has_no_shared_storage_and_no_conditions(tmp_path: Path) -> None:
    interval = f"    {RATE}: {{low: 0.01, high: 0.3}}\n"
    assert not problems(tmp_path, f"  method: cmaes\n  over:\n{interval}")
    shared = f"  method: cmaes\n  storage: postgresql://host/study\n  over:\n{interval}"
    (problem,) = problems(tmp_path, shared)
    assert (problem.path, problem.found) == ("tune.method", "cmaes")


def test_folds_of_trials_exclude_folds_of_the_verdict(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    text = SEARCH.replace("bought", "bought, split: {kind: random, folds: 5}")
    file.write_text(f"{text}  folds: 3\n  over:\n    {RATE}: [0.1, 0.2]\n")
    with pytest.raises(ContractMistake) as raised:
        read_contract(file)
    assert [problem.path for problem in raised.value.problems] == ["tune.folds"]


@pytest.mark.parametrize("path", [*FIXED, "metric.name", "data.split.validation", "tune.trials"])
def test_what_makes_trials_comparable_is_not_searched(tmp_path: Path, path: str) -> None:
    (problem,) = problems(tmp_path, f"  over:\n    {path}: [1, 2]\n")
    assert "cannot be compared" in problem.message
    assert problem.path.startswith("tune.over.")


def test_paths_that_only_begin_alike_are_searched(tmp_path: Path) -> None:
    assert not problems(tmp_path, "  over:\n    data.features.text.terms: [100, 200]\n")
    assert not problems(tmp_path, "  over:\n    training.seeds: [1, 2]\n")


def test_a_password_in_the_storage_is_refused_and_not_repeated(tmp_path: Path) -> None:
    storage = "postgresql://me:hunter22@host/study"
    found = problems(tmp_path, f"  storage: {storage}\n  over:\n    {RATE}: [0.1, 0.2]\n")
    assert len(found) == 1
    assert "hunter22" not in str(found[0])


WRONG = """\
name: small
data: {path: rows.csv, target: bought, positive: "yes"}
model: {kind: boosting, max_trees: 5}
metric: {name: roc_auc}
tune:
  over:
    model.lerning_rate: {low: 0.01, high: 0.3}
"""


def test_check_finds_a_wrong_path_and_names_the_nearest(tmp_path: Path) -> None:
    contract = write_project(tmp_path, WRONG)
    ran = command("check", contract, "--runs", tmp_path / "runs")
    assert ran.code == 2
    assert f"{contract}:7" in ran.err
    assert "learning_rate" in ran.err


def test_a_training_says_that_it_does_not_search(tmp_path: Path) -> None:
    contract = write_project(tmp_path, WRONG.replace("lerning", "learning"))
    assert command("check", contract, "--runs", tmp_path / "runs").code in (0, 1, 3)
    ran = command("train", contract, "--runs", tmp_path / "runs", "--run", "one")
    assert ran.code in (0, 3)
    assert ran.err.count("`trainwright tune` searches") == 1
    assert not (tmp_path / "runs" / "one" / "trials").exists()
