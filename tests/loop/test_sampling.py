"""Every sampling from its contract to the weights: resumed runs end as those left alone, mistakes
in the columns are told before anything is written, and the guide's page is true."""

from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np
import polars as pl
import pytest

pytest.importorskip("torch")

from canary import Killed
from contract_runs import bits, train
from faults.tiers import each
from guide import GUIDE, blocks
from trainwright.core.errors import Mistake
from trainwright.data.loading.feed import Feed
from trainwright.data.sampling.samplers import GroupSampler

pytestmark = pytest.mark.torch

PAGE = GUIDE / "sampling.md"
CONTRACT = """\
data:
  path: rows.csv
  target: label
  exclude: [weight, difficulty]
  sampling: {sampling}
model: {{kind: mlp, hidden: [8]}}
training:
  {{num_epochs: 2, batch_size: 16, effective_batch_size: 32, early_stopping: off,
   checkpointing: {{save_every_n_steps: 3}}}}
"""
SAMPLINGS = (
    "{kind: balanced}",
    "{kind: weighted, column: weight}",
    "{kind: mixture, column: source, temperature: 4.0}",
    "{kind: mixture, column: source, weights: {north: 1.0, south: 3.0}}",
    "{kind: curriculum, column: difficulty, ratio: 0.6}",
    "{kind: blocks, block_rows: 8, mixed_blocks: 5}",
)


def write(folder: Path, sampling: str, rows: int = 300) -> Path:
    draw = np.random.default_rng(0)
    lines = ["a,b,weight,source,difficulty,label"]
    for _ in range(rows):
        a, b = draw.normal(size=2)
        source = "north" if draw.random() < 0.9 else "south"
        label = "yes" if a + b > 1.5 else "no"
        lines.append(f"{a:.3f},{b:.3f},{draw.random():.3f},{source},{abs(a + b):.3f},{label}")
    (folder / "rows.csv").write_text("\n".join(lines) + "\n")
    contract = folder / "contract.yaml"
    contract.write_text(CONTRACT.format(sampling=sampling))
    return contract


@pytest.mark.parametrize("sampling", each(2, list(SAMPLINGS)))
def test_a_resumed_run_ends_as_the_one_left_alone(sampling: str, tmp_path: Path) -> None:
    contract = write(tmp_path, sampling)
    whole = train(contract, "whole")
    for name, dies_at in (("early", 2), ("late", 8)):
        with pytest.raises(Killed):
            train(contract, name, dies_at=dies_at)
        assert bits(train(contract, name)) == bits(whole)


def test_sources_that_lie_in_folders_are_those_of_a_column(tmp_path: Path) -> None:
    sampling = "{kind: mixture, column: source, weights: {north: 1.0, south: 3.0}}"
    for name in ("column", "folders"):
        (tmp_path / name).mkdir()
        write(tmp_path / name, sampling)
    rows = pl.read_csv(tmp_path / "column/rows.csv", infer_schema=False)
    rows = rows.sort("source", maintain_order=True)
    rows = rows.select(pl.exclude("source"), "source")
    rows.write_csv(tmp_path / "column/rows.csv")
    (tmp_path / "folders/rows.csv").unlink()
    for (source,), part in rows.group_by("source"):
        (tmp_path / f"folders/rows/source={source}").mkdir(parents=True)
        part.drop("source").write_csv(tmp_path / f"folders/rows/source={source}/part.csv")
    contract = tmp_path / "folders/contract.yaml"
    contract.write_text(contract.read_text().replace("rows.csv", "rows"))
    runs = [train(tmp_path / name / "contract.yaml", "run") for name in ("column", "folders")]
    assert bits(runs[0]) == bits(runs[1])
    assert runs[0].signals["loss"] == runs[1].signals["loss"]


@pytest.mark.extended
def test_samplings_differ_from_each_other(tmp_path: Path) -> None:
    losses = [
        tuple(train(write(tmp_path, sampling), f"run-{at}").signals["loss"])
        for at, sampling in enumerate(("{}", *SAMPLINGS))
    ]
    assert len(set(losses)) == len(losses)


@pytest.mark.parametrize(
    ("sampling", "message"),
    [
        ("{kind: weighted, column: source}", "training rows without a number as a weight"),
        ("{kind: weighted, column: a}", "from 0 on"),
        ("{kind: weighted, column: weigth}", "no column 'weigth'"),
        ("{kind: mixture, column: source, weights: {north: 1.0}}", "not those of the sources"),
        ("{kind: curriculum, column: label}", "without a number as a difficulty"),
    ],
)
def test_a_column_that_does_not_hold_it_is_told_at_once(
    sampling: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(Mistake, match=message):
        train(write(tmp_path, sampling), "run")
    assert not (tmp_path / "runs").exists()


def test_a_balanced_feed_shows_the_rare_class_as_often() -> None:
    import torch

    labels = torch.tensor([0] * 90 + [1] * 10)
    feed = Feed([labels], 20, draws=GroupSampler.balanced(labels.numpy(), seed=1))
    drawn = [feed.next_step().micro_batches[0][0] for _ in range(feed.steps_per_epoch)]
    assert int(torch.cat(drawn).sum()) == 50


def test_the_examples_of_the_page_are_contracts_and_the_script_runs(tmp_path: Path) -> None:
    from trainwright.contract.reading.read_contract import read_contract

    found = blocks(PAGE, "yaml")
    assert len(found) == 5
    for example in found:
        file = tmp_path / "contract.yaml"
        file.write_text(example)
        read_contract(file)
    (script,) = blocks(PAGE, "python")
    (tmp_path / "script.py").write_text(script)
    runpy.run_path(str(tmp_path / "script.py"))
