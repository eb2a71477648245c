"""The contract of the guide on text embeddings: trained, judged, mined for, resumed, searched."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import trainwright as tw
from canary import Killed
from command import command
from contract_runs import bits, train
from guide import GUIDE, blocks
from trainwright.contract.sections.metric import Metric
from trainwright.core.errors import Mistake
from trainwright.core.files import read_json
from trainwright.data.base.inputs import Part
from trainwright.data.pairs.caption_tokenizer import caption_pieces
from trainwright.evaluation.curves.plot_data import PassageCurves
from trainwright.evaluation.metrics.metric_values import measure
from trainwright.run.after.evaluate_rows import evaluate_rows, match_file, predict_file
from trainwright.run.folder.model_files import read_baselines
from trainwright.run.judging.write_predictions import read_predictions
from trainwright.tracking.run_folder import RunFolder

pytestmark = pytest.mark.torch

PAGE = GUIDE / "text-pairs.md"
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "text_pairs"
FEW = ("training.num_epochs=6", "metric.resamples=100")


@pytest.fixture
def contract(tmp_path: Path) -> Path:
    shutil.copytree(EXAMPLE, tmp_path / "texts")
    return tmp_path / "texts" / "contract.yaml"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example, with a run `runs/one`."""
    folder = tmp_path_factory.mktemp("texts") / "texts"
    shutil.copytree(EXAMPLE, folder)
    tw.train(folder / "contract.yaml", runs=folder / "runs", name="one", overrides=list(FEW))
    return folder


def run_of(project: Path) -> RunFolder:
    return RunFolder(project / "runs" / "one")


def test_the_page_shows_the_example() -> None:
    assert blocks(PAGE, "yaml")[0] == (EXAMPLE / "contract.yaml").read_text(encoding="utf-8")


def test_it_is_judged_beside_three_baselines(project: Path) -> None:
    judged = read_predictions(run_of(project))
    found = evaluate_rows(run_of(project), project / "questions.csv").evaluation
    # 144 questions of 36 articles.
    assert found.rows == found.units == 144
    assert set(found.baselines) == {"dummy", "linear", "bm25"}
    dummy = found.baselines["dummy"]
    assert dummy["passage_recall_at_1"].value == pytest.approx(1 / 36)
    assert dummy["passage_recall_at_10"].value == pytest.approx(10 / 36)
    assert abs(found.baselines["bm25"]["passage_ndcg_at_10"].value - 0.12) < 0.1
    assert found.metrics["passage_ndcg_at_10"].value > 0.5
    assert isinstance(found.curves, PassageCurves)
    assert (found.curves.queries, found.curves.passages) == (144, 36)
    assert {one.name for one in found.slices} >= {"thing=parcel"}
    assert any("was trained on" in one for one in found.warnings)
    stored = read_json(run_of(project).path / "evaluation.json")["evaluation"]["metrics"]
    for name, one in stored.items():
        assert measure(name, judged.answers, Metric()) == pytest.approx(one["value"]), name
    page = command("report", str(run_of(project).path))
    assert page.code == 0, page.err
    assert "Passages found by queries" in (run_of(project).path / "report.html").read_text()


def test_bm25_is_that_of_its_formula(project: Path) -> None:
    """By a loop over words, as in Robertson and Zaragoza 2009."""
    trained = tw.prepare(project / "contract.yaml").ready.prepared.train
    passages = trained.frame["passage"].unique(maintain_order=True).to_list()
    words = [caption_pieces(text, "words") for text in passages]
    mean = np.mean([len(one) for one in words])
    baseline = read_baselines(run_of(project))["bm25"]
    frame = pl.DataFrame(
        {
            "query": ["repair of returns", "a refunds delay", "no word of it"],
            "passage": [passages[0], passages[3] + " unseen words", passages[5]],
        }
    )
    three = np.arange(3)
    part = Part("test", frame, trained.inputs.take(three), np.zeros((3, 2)), three, three)
    (inputs,) = baseline.features.inputs_of(part)
    queries, found = np.split(baseline.score(inputs), 2, axis=1)
    for query in range(3):
        for passage in range(3):
            expected, own = 0.0, caption_pieces(frame["passage"][passage], "words")
            for term in caption_pieces(frame["query"][query], "words"):
                seen = sum(term in one for one in words)
                if not seen:
                    continue
                rarity = np.log(1 + (len(passages) - seen + 0.5) / (seen + 0.5))
                count = own.count(term)
                length = 1.2 * (1 - 0.75 + 0.75 * len(own) / mean)
                expected += rarity * count * 2.2 / (count + length)
            assert queries[query] @ found[passage] == pytest.approx(expected, abs=1e-6)


def test_passages_are_matched_indexed_and_searched(project: Path, tmp_path: Path) -> None:
    folder = str(run_of(project).path)
    asked, articles = tmp_path / "asked.csv", tmp_path / "articles.csv"
    table = pl.read_csv(project / "questions.csv")
    table.select("query").head(5).write_csv(asked)
    table.select("passage").unique(maintain_order=True).write_csv(articles)
    matched = match_file(run_of(project), str(asked), str(articles), 2).frame
    assert matched["query"].to_list() == table["query"].head(5).to_list()
    own = predict_file(run_of(project), asked).frame.drop("query").to_numpy()
    others = predict_file(run_of(project), articles).frame.drop("passage").to_numpy()
    names = pl.read_csv(articles)["passage"].gather((own @ others.T).argmax(axis=1))
    assert matched["match_1"].to_list() == names.to_list()
    made = command("index", folder, str(project / "questions.csv"))
    assert made.code == 0, made.err
    assert "144 passages" in made.out
    ran = command("search", folder, table["query"][0], "--top", "1")
    assert ran.code == 0, ran.err
    assert pl.read_csv(ran.out.encode())["match"][0] == names[0]
    refused = command("index", folder, str(project / "questions.csv"), "--as", "images")
    assert refused.code == 2
    assert "write --as passages" in refused.err


@pytest.mark.extended
def test_mined_negatives_are_trained_with(project: Path, tmp_path: Path) -> None:
    folder, out = str(run_of(project).path), project / "mined.csv"
    ran = command(
        "mine", folder, str(project / "questions.csv"), "-o", str(out), "--negatives", "3"
    )
    assert ran.code == 0, ran.err
    assert "negatives: [negative_1, negative_2, negative_3]" in ran.out
    mined = pl.read_csv(out)
    assert mined.columns == ["query", "passage", "thing", "negative_1", "negative_2", "negative_3"]
    for at in (1, 2, 3):
        assert (mined[f"negative_{at}"] != mined["passage"]).all()
    again = command("mine", folder, str(out), "-o", str(tmp_path / "x.csv"))
    assert again.code == 2
    assert "already" in again.err
    hard = ["data.path=mined.csv", "data.negatives=[negative_1, negative_2, negative_3]"]
    result = tw.train(project / "contract.yaml", runs=tmp_path / "runs", overrides=[*FEW, *hard])
    # The bundle of a training with negatives reads pairs without them.
    judged = evaluate_rows(RunFolder(result.folder), project / "questions.csv")
    assert judged.evaluation.metrics["passage_ndcg_at_10"].value > 0.5


def with_negatives(folder: Path) -> None:
    """Two columns of hard negatives in the table; some cells are empty, and some right."""
    table = pl.read_csv(folder / "questions.csv")
    others = table["passage"].to_list()
    first = [None if at % 5 == 0 else others[(at * 7 + 3) % 144] for at in range(144)]
    second = [others[at] if at % 9 == 0 else others[(at + 50) % 144] for at in range(144)]
    table.with_columns(pl.Series("one", first), pl.Series("two", second)).write_csv(
        folder / "questions.csv"
    )


HARD = (
    "data.negatives=[one, two]",
    "data.num_workers=0",
    "model.text={kind: transformer, width: 16, layers: 1, heads: 2, dropout: 0.2}",
)


@pytest.mark.parametrize("death", np.random.default_rng(3).choice(range(1, 12), 2, False).tolist())
def test_a_killed_training_goes_on_to_the_same_bits(contract: Path, death: int) -> None:
    """With hard negatives, dropout, an average of the weights and micro-batches of one step."""
    with_negatives(contract.parent)
    settings = (
        *HARD,
        "training={num_epochs: 4, batch_size: 10, effective_batch_size: 30, average: {kind: ema}, "
        "checkpointing: {save_every_n_steps: 2}}",
    )
    whole = train(contract, "whole", *settings)
    with pytest.raises(Killed):
        train(contract, "cut", *settings, dies_at=death)
    assert bits(train(contract, "cut", *settings)) == bits(whole)


def test_the_division_of_a_step_does_not_change_its_update(contract: Path) -> None:
    with_negatives(contract.parent)
    common = (
        *HARD[:2],
        "model.text.dropout=0.0",
        "training={num_epochs: 1, batch_size: 40, effective_batch_size: 40, gradient_clipping: "
        "off, optimizer: {name: sgd, learning_rate: 0.1, momentum: 0.0}, "
        "scheduler: {name: constant}}",
    )
    runs = [train(contract, f"of-{n}", *common, f"training.batch_size={n}") for n in (40, 10)]
    first, second = (dict(run.job.model.state_dict()) for run in runs)
    for name, tensor in first.items():
        assert float((second[name] - tensor).abs().max()) < 1e-6, name


def test_right_passages_are_no_negatives_and_queries_stay_together(contract: Path) -> None:
    with_negatives(contract.parent)
    table = pl.read_csv(contract.parent / "questions.csv")
    twice = table.with_columns(pl.col("passage") + " again")
    pl.concat([table, twice]).write_csv(contract.parent / "questions.csv")
    ready = tw.prepare(contract, overrides=[HARD[0]]).ready
    parts = (ready.prepared.train, ready.prepared.validation, ready.prepared.test)
    asked = [set(part.frame["query"]) for part in parts]
    assert sum(map(len, asked)) == 144
    assert len(np.unique(parts[2].units)) == len(parts[2]) / 2
    codes = parts[0].target
    assert codes.shape[1] == 2 + 2 + 2
    for query, passage, *rest in codes.tolist():
        right = rest[2:]
        assert passage in right
        assert len({*right}) == 2, query
    said = dict(ready.raw.remarks)
    assert "not used" in said["equal"]


@pytest.mark.extended
def test_a_base_of_texts_is_read(contract: Path, tmp_path: Path) -> None:
    pytest.importorskip("transformers", reason="needs the transformers extra")
    from made_texts import write_base

    write_base(contract.parent / "reader", "bert")
    settings = [
        "model={kind: bi_encoder, width: 16, text: {kind: pretrained, architecture: reader}}",
        "training={num_epochs: 1, batch_size: 24, effective_batch_size: 48}",
        "metric.resamples=100",
    ]
    result = tw.train(contract, runs=tmp_path / "runs", overrides=settings)
    shutil.rmtree(contract.parent / "reader")
    judged = evaluate_rows(RunFolder(result.folder), contract.parent / "questions.csv")
    assert judged.evaluation.rows == 144


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        ("query,passage\n", "nothing|no rows|header|empty"),
        ("query,text\na,b\n", "passage"),
        ("query,passage\na,\nb,c\n", "no passage"),
        ("query,passage\n,c\nb,c\n", "no query"),
    ],
)
def test_tables_that_cannot_be_read(contract: Path, edit: str, message: str) -> None:
    (contract.parent / "questions.csv").write_text(edit)
    with pytest.raises(Mistake, match=message):
        tw.prepare(contract, overrides=["slices=[]"])


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("metric.name=mean_recall", "no metric of data of kind text_pairs"),
        ("model={kind: dual_encoder}", "cannot read data of kind text_pairs"),
        ("data.negatives=[passage]", "named twice"),
        ("data.passage=query", "named twice"),
        ("training.compute.compile=on", "one micro-batch"),
        ("training.refit=true", "refit"),
        ("training.loss.name=mse", "no loss of a retrieval"),
        ("data.negatives=[none]", "none"),
    ],
)
def test_what_text_pairs_have_not(contract: Path, setting: str, message: str) -> None:
    with pytest.raises(Mistake, match=message) as raised:
        tw.prepare(contract, overrides=[setting])
    assert all(one.fix for one in raised.value.problems)


def test_a_model_of_images_mines_no_texts(project: Path, tmp_path: Path) -> None:
    rows = {"x": list(range(60)), "y": [at % 2 for at in range(60)]}
    pl.DataFrame(rows).write_csv(tmp_path / "rows.csv")
    contract = {"data": {"path": str(tmp_path / "rows.csv"), "target": "y"}}
    run = tw.train({**contract, "model": {"kind": "linear"}}, runs=tmp_path / "runs")
    ran = command("mine", str(run.folder), str(project / "questions.csv"), "-o", "x.csv")
    assert ran.code == 2
    assert "compares no queries with passages" in ran.err
