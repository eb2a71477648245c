"""An index of embeddings of the guide's example, and searches in it."""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import trainwright as tw
from command import command, inside
from guide import GUIDE, blocks
from trainwright.core.errors import Mistake
from trainwright.predictor.embedding_index import (
    EmbeddingIndex,
    IndexFacts,
    read_index,
    write_index,
)
from trainwright.run.after.evaluate_rows import match_file, predict_file
from trainwright.run.after.search_embeddings import index_file, read_queries, search_rows
from trainwright.tracking.run_folder import RunFolder

pytestmark = pytest.mark.torch

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "pairs"
FEW = ["training.num_epochs=1", "metric.resamples=100"]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example with a run of one epoch, `runs/one`, and the index of its images."""
    folder = tmp_path_factory.mktemp("search") / "pairs"
    shutil.copytree(EXAMPLE, folder)
    tw.train(folder / "contract.yaml", runs=folder / "runs", name="one", overrides=FEW)
    ran = command("index", str(folder / "runs/one"), str(folder / "captions.csv"), "--json")
    assert ran.code == 0, ran.err
    told = json.loads(ran.out)
    assert (told["rows"], told["side"], told["width"]) == (120, "images", 64)
    return folder


def run_of(project: Path) -> RunFolder:
    return RunFolder(project / "runs" / "one")


@pytest.mark.extended
def test_the_nearest_are_those_of_the_candidates(project: Path) -> None:
    """`predict --candidates` compares anew what the index holds."""
    texts = project / "texts.csv"
    pl.read_csv(project / "captions.csv").select("caption").head(9).write_csv(texts)
    wanted = match_file(run_of(project), str(texts), str(project / "captions.csv"), 3).frame
    asked = read_queries(run_of(project), str(texts), "", "given")
    found = search_rows(run_of(project), asked, run_of(project).path / "index", 3)
    assert found.columns == ["query", "rank", "match", "cosine"]
    assert found["rank"].to_list() == [1, 2, 3] * 9
    for at in (1, 2, 3):
        rows = found.filter(pl.col("rank") == at)
        assert rows["query"].to_list() == wanted["caption"].to_list()
        assert rows["match"].to_list() == wanted[f"match_{at}"].to_list()
        np.testing.assert_allclose(rows["cosine"], wanted[f"cosine_{at}"], atol=1e-6)


def test_a_text_is_searched_for_and_columns_are_kept(project: Path, tmp_path: Path) -> None:
    words = ["index", str(run_of(project).path), str(project / "captions.csv"), "--as", "texts"]
    made = command(*words, "--keep", "shape", "-o", str(tmp_path / "texts"))
    assert made.code == 0, made.err
    caption = pl.read_csv(project / "captions.csv")["caption"][5]
    ran = command(
        "search",
        str(run_of(project).path),
        caption,
        "--index",
        str(tmp_path / "texts"),
        "--top",
        "2",
        "-o",
        str(tmp_path / "found.csv"),
    )
    assert ran.code == 0, ran.err
    found = pl.read_csv(tmp_path / "found.csv")
    assert found["match"][0] == caption
    assert found["cosine"][0] == pytest.approx(1)
    assert found["shape"][0] == caption.split()[2]
    assert found.height == 2
    of_images = command(
        "search", str(run_of(project).path), "--from", str(project / "images"), "--top", "1"
    )
    assert of_images.code == 0, of_images.err
    rows = pl.read_csv(of_images.out.encode())
    assert [Path(one).name for one in rows["query"]] == [Path(one).name for one in rows["match"]]


@pytest.mark.extended
def test_the_index_of_another_model_is_refused(project: Path, tmp_path: Path) -> None:
    other = tw.train(
        project / "contract.yaml",
        runs=tmp_path / "runs",
        overrides=[*FEW, "seed=3", "model.image.width=4", "model.text={kind: bag, width: 8}"],
    )
    words = ("search", str(other.folder), "a red circle", "--index")
    ran = command(*words, str(run_of(project).path / "index"))
    assert ran.code == 2
    assert "embeddings of another model" in ran.err
    assert "trainwright index RUN DATA" in ran.err
    # The advice is followed.
    again = command("index", str(other.folder), str(project / "captions.csv"))
    assert again.code == 0, again.err
    assert command("search", str(other.folder), "a red circle").code == 0


@pytest.mark.parametrize("name", ["embeddings.npy", "rows.parquet", "index.json"])
def test_a_changed_index_is_refused(project: Path, tmp_path: Path, name: str) -> None:
    shutil.copytree(run_of(project).path / "index", tmp_path / "index")
    data = bytearray((tmp_path / "index" / name).read_bytes())
    data[len(data) // 2] ^= 1
    (tmp_path / "index" / name).write_bytes(data)
    asked = read_queries(run_of(project), "", "a red circle", "given")
    with pytest.raises(Mistake, match=r"damaged|another model"):
        search_rows(run_of(project), asked, tmp_path / "index", 3)


def test_commands_that_contradict_themselves(project: Path, tmp_path: Path) -> None:
    run = str(run_of(project).path)
    assert "neither" in command("search", run).err
    assert "both" in command("search", run, "a text", "--from", str(project / "captions.csv")).err
    none = command("search", run, "a text", "--index", str(tmp_path / "none"))
    assert none.code == 2
    assert "there is no index" in none.err
    full = command("index", run, str(project / "captions.csv"), "-o", str(project))
    assert full.code == 2
    assert "holds other files" in full.err
    named = pl.read_csv(project / "captions.csv").with_columns(rank=1)
    named.write_csv(project / "ranked.csv")
    kept = command("index", run, str(project / "ranked.csv"), "--keep", "rank")
    assert kept.code == 2
    assert "the name of another one" in kept.err
    missing = command("index", run, str(project / "captions.csv"), "--keep", "shap")
    assert missing.code == 2
    assert "did you mean 'shape'" in missing.err


@pytest.mark.extended
def test_a_model_without_embeddings_makes_no_index(tmp_path: Path) -> None:
    rows = {"x": list(range(60)), "y": [at % 2 for at in range(60)]}
    pl.DataFrame(rows).write_csv(tmp_path / "rows.csv")
    contract = {"data": {"path": str(tmp_path / "rows.csv"), "target": "y"}}
    run = tw.train({**contract, "model": {"kind": "linear"}}, runs=tmp_path / "runs")
    with pytest.raises(Mistake, match="gives no embeddings"):
        index_file(RunFolder(run.folder), str(tmp_path / "rows.csv"), tmp_path / "i", "given", [])
    assert not (tmp_path / "i").exists()


@pytest.mark.extended
def test_search_is_exact_in_blocks_and_ties_keep_their_order(tmp_path: Path) -> None:
    """Against a whole sort, with more rows than one block holds; equal rows by their place."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(5000, 8))
    rows[4000:] = rows[:1000]
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    queries = rng.normal(size=(1200, 8))
    queries /= np.linalg.norm(queries, axis=1, keepdims=True)
    facts = IndexFacts("a" * 64, "texts", 5000, 8)
    frame = pl.DataFrame({"name": [str(at) for at in range(5000)]})
    write_index(tmp_path / "index", facts, iter(np.split(rows, 4)), frame)
    opened = read_index(tmp_path / "index", "a" * 64)
    assert isinstance(opened, EmbeddingIndex)
    found = opened.nearest(queries, 7)
    whole = queries @ np.asarray(opened.embeddings, np.float64).T
    order = np.argsort(-whole, axis=1, kind="stable")[:, :7]
    np.testing.assert_allclose(found.cosines, np.take_along_axis(whole, order, axis=1), atol=1e-12)
    twins = (found.places % 4000 == order % 4000).mean()
    assert twins > 0.999
    own = opened.nearest(rows[:3], 2).places
    assert own.tolist() == [[0, 4000], [1, 4001], [2, 4002]]


def test_files_of_one_side(project: Path) -> None:
    frame = predict_file(run_of(project), project / "captions.csv").frame
    stored = read_index(run_of(project).path / "index", _hash_of(run_of(project)))
    np.testing.assert_allclose(stored.embeddings, frame.drop("image").to_numpy(), atol=1e-6)


def _hash_of(folder: RunFolder) -> str:
    from trainwright.predictor.bundle import bundle_hash

    return bundle_hash(folder.bundle)


@pytest.mark.extended
def test_the_commands_of_the_page_work(project: Path) -> None:
    """As they stand there, in the folder of the example."""
    with inside(project):
        for block in blocks(GUIDE / "search.md", "sh"):
            for line in block.strip().splitlines():
                ran = command(*shlex.split(line.replace("RUN", "one"))[1:])
                assert ran.code == 0, f"{line}: {ran.err}"
