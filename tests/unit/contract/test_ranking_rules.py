from __future__ import annotations

from pathlib import Path

import pytest

from trainwright.contract.reading.read_contract import read_contract
from trainwright.core.errors import ContractMistake

RANKING = """\
task: ranking
data: {{path: rows.csv, target: relevance, query: search{0}}}
model: {{kind: {1}}}
"""


def paths(folder: Path, text: str) -> list[str]:
    file = folder / "c.yaml"
    file.write_text(text)
    try:
        read_contract(file)
    except ContractMistake as mistake:
        return [problem.path for problem in mistake.problems if problem.fix]
    return []


@pytest.mark.parametrize(
    ("data", "model", "path"),
    [
        ("", "boosting", ""),
        ("", "boosting, objective: rank_xendcg", ""),
        ("", "xgboost", ""),
        ("", "linear", ""),
        ("", "mlp", ""),
        ("", "ft_transformer", ""),
        ("", "tabular_resnet", ""),
        ("", "forest", "model.kind"),
        ("", "catboost", "model.kind"),
        ("", "neighbours", "model.kind"),
        (", split: {kind: group, column: search}", "boosting", ""),
        (", split: {kind: group, column: user}", "boosting", ""),
        (", split: {kind: time, column: day}", "boosting", ""),
        (", split: {kind: random, key: search}", "boosting", ""),
        (", split: {kind: random}", "boosting", "data.split.kind"),
        (", split: {kind: stratified}", "boosting", "data.split.kind"),
        (", split: {kind: stratified_group, column: user}", "boosting", "data.split.kind"),
        (", positive: a", "boosting", "data.positive"),
        (", sampling: {kind: weighted, column: w}", "mlp", "data.sampling.kind"),
    ],
)
def test_a_ranking_keeps_its_queries_whole(
    data: str, model: str, path: str, tmp_path: Path
) -> None:
    assert paths(tmp_path, RANKING.format(data, model)) == ([path] if path else [])


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("task: ranking\ndata: {path: r.csv}\nmodel: {kind: boosting}\n", "task"),
        ("data: {path: r.csv, query: q}\nmodel: {kind: boosting}\n", ""),
        ("task: regression\ndata: {path: r.csv, query: q}\nmodel: {kind: mlp}\n", "data.query"),
        ("data: {path: r.csv, query: q, target: q}\nmodel: {kind: mlp}\n", "data.query"),
        (
            "task: regression\ndata: {path: r.csv}\nmodel: {kind: mlp}\nmetric: {k: 3}\n",
            "metric.k",
        ),
        (
            "data: {path: r.csv}\nmodel: {kind: mlp}\nmetric: {name: f1, gain: linear}\n",
            "metric.gain",
        ),
        (
            RANKING.format("", "mlp") + "metric: {name: map, k: 3, relevant_from: 2}\n",
            "",
        ),
        (RANKING.format("", "mlp") + "metric: {name: rmse}\n", "metric.name"),
        (RANKING.format("", "mlp") + "metric: {name: ndcg, target: 2}\n", "metric.target"),
        (RANKING.format("", "mlp") + "training: {loss: {name: listnet}}\n", ""),
        (RANKING.format("", "mlp") + "training: {loss: {name: ranknet}}\n", ""),
        (RANKING.format("", "mlp") + "training: {loss: {name: mse}}\n", "training.loss.name"),
        (
            "task: regression\ndata: {path: r.csv}\nmodel: {kind: mlp}\n"
            "training: {loss: {name: ranknet}}\n",
            "training.loss.name",
        ),
    ],
)
def test_what_is_said_of_queries_is_said_in_a_ranking(text: str, path: str, tmp_path: Path) -> None:
    assert paths(tmp_path, text) == ([path] if path else [])
