"""The page on extending: a network, a model that fits itself and a kind of data from the outside,
each by its own files and a line in each table, do what those of the package do."""

from __future__ import annotations

import shlex
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

pytest.importorskip("torch")

from command import write_rows
from doc_pages import BLOCK, mask_digits, shown
from extended_package import PAGE, write_extended
from faults.zygote import Zygote
from trainwright.core.files import read_json

ROOT = Path(__file__).resolve().parents[2]

SURVEY = """\
task: classification
data: {path: rows.csv, target: bought, positive: "yes"}
metric: {name: roc_auc, target: 0.1, resamples: 100}
"""
MAXOUT = """\
model: {kind: maxout, units: 8}
training: {num_epochs: 2, batch_size: 32, memory: {activation_checkpointing: full}}
"""
SPECTRA = """\
data: {kind: spectra, path: spectra.npz}
model: {kind: mlp, hidden: [16]}
metric: {name: accuracy, target: 0.9, resamples: 100}
training: {num_epochs: 6, batch_size: 32, early_stopping: "off"}
"""


@pytest.fixture(scope="module")
def extended(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Zygote]:
    """Processes of a copy of the package that is extended as the page says."""
    root = tmp_path_factory.mktemp("extended")
    write_extended(root)
    with Zygote(root) as running:
        yield running


@pytest.fixture
def spectra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with spectra and their contract."""
    monkeypatch.chdir(tmp_path)
    (script,) = (text for language, text in BLOCK.findall(PAGE) if language == "python")
    exec(compile(script, "extending.md", "exec"), {})
    (tmp_path / "spectra.yaml").write_text(SPECTRA)
    return tmp_path


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    """A folder with a table."""
    write_rows(tmp_path / "rows.csv")
    return tmp_path


@pytest.mark.extended
def test_the_page_shows_what_its_commands_say(
    extended: Zygote, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    said: list[str] = []
    for language, text in BLOCK.findall(PAGE):
        match language:
            case "yaml":
                (tmp_path / "contract.yaml").write_text(text, encoding="utf-8")
            case "text":
                assert shown(text, said, mask_digits), f"not said: {text}\n{said}"
            case "python":
                exec(compile(text, "extending.md", "exec"), {})
            case _:
                said = [line for one in text.splitlines() for line in run(extended, one, tmp_path)]


def run(extended: Zygote, written: str, folder: Path) -> list[str]:
    """What a line of a shell block prints."""
    words = shlex.split(written)
    if words[0] == "cp":
        shutil.copy(ROOT / words[1], folder / words[2])
        return []
    (folder / "output.txt").unlink(missing_ok=True)
    ran = extended.run(words[1:], folder, environment={"COLUMNS": "100"})
    assert ran.code in (0, 3), ran.output
    return ran.output.splitlines()


def bits(run: Path) -> bytes:
    return (run / "bundle" / "network.safetensors").read_bytes()


@pytest.mark.extended
def test_a_new_network_goes_on_after_a_stop_to_the_same_bits_and_is_reported(
    extended: Zygote, rows: Path
) -> None:
    (rows / "contract.yaml").write_text(SURVEY + MAXOUT)
    train = ["train", "contract.yaml", "--run"]
    assert extended.run([*train, "cut"], rows, fault="step.done:9:term").code == 75
    resumed = extended.run(["resume", "cut"], rows)
    # 3: so few rows may not decide the clauses.
    assert resumed.code in (0, 3), resumed.output
    whole = extended.run([*train, "whole"], rows, reports=True)
    assert whole.code in (0, 3), whole.output
    assert bits(rows / "runs" / "cut") == bits(rows / "runs" / "whole")
    assert "maxout" in (rows / "runs/whole/report.html").read_text(encoding="utf-8")


def test_a_new_model_that_fits_itself_predicts_and_refuses_numbers(
    extended: Zygote, rows: Path
) -> None:
    (rows / "contract.yaml").write_text(SURVEY + "model: {kind: naive_bayes}\n")
    assert extended.run(["train", "contract.yaml", "--run", "whole"], rows).code in (0, 3)
    predicted = extended.run(["predict", "whole", "rows.csv", "-o", "out.csv"], rows)
    assert predicted.code == 0, predicted.output
    named, real = pl.read_csv(rows / "out.csv"), pl.read_csv(rows / "rows.csv")
    assert (named["prediction"] == real["bought"]).mean() > 0.7
    number = SURVEY.replace("classification", "regression").replace("bought", "age")
    number = number.replace(', positive: "yes"', "").replace("roc_auc", "rmse")
    (rows / "contract.yaml").write_text(number + "model: {kind: naive_bayes}\n")
    refused = extended.run(["check", "contract.yaml"], rows)
    assert refused.code == 2
    assert "naive Bayes predicts classes" in refused.output


def test_a_new_kind_of_data_goes_on_after_a_kill_to_the_same_bits(
    extended: Zygote, spectra: Path
) -> None:
    whole = extended.run(["train", "spectra.yaml", "--run", "whole"], spectra)
    assert whole.code == 0, whole.output
    assert "300 spectra of 12 wavelengths" in whole.output
    named = ["train", "spectra.yaml", "--run", "cut"]
    assert extended.run(named, spectra, fault="step.done:15:kill").code == -signal.SIGKILL
    resumed = extended.run([*named, "--resume"], spectra)
    assert resumed.code == 0, resumed.output
    assert bits(spectra / "runs" / "cut") == bits(spectra / "runs" / "whole")


@pytest.mark.extended
def test_a_new_kind_of_data_is_checked_predicted_judged_and_reported(
    extended: Zygote, spectra: Path
) -> None:
    checked = extended.run(["check", "spectra.yaml"], spectra)
    assert checked.code == 0, checked.output
    done = extended.run(["train", "spectra.yaml", "--run", "a"], spectra, reports=True)
    assert done.code == 0, done.output
    run = spectra / "runs" / "a"
    assert read_json(run / "bundle" / "features.json")["kind"] == "spectra"
    assert run.joinpath("report.html").stat().st_size > 10_000
    predicted = extended.run(["predict", "a", "spectra.npz", "-o", "out.csv"], spectra)
    assert predicted.code == 0, predicted.output
    rows = pl.read_csv(spectra / "out.csv")
    assert rows.height == 300
    assert (rows["prediction"] == rows["named"]).mean() > 0.9
    judged = extended.run(["evaluate", "a", "spectra.npz"], spectra)
    assert judged.code == 0, judged.output


@pytest.mark.extended
def test_init_proposes_a_contract_for_a_new_kind_of_data(extended: Zygote, spectra: Path) -> None:
    done = extended.run(["init", "spectra.npz", "-o", "first.yaml"], spectra)
    assert done.code == 0, done.output
    assert "kind: spectra" in (spectra / "first.yaml").read_text()
    assert extended.run(["check", "first.yaml"], spectra).code == 0


def test_the_rules_speak_of_a_new_kind_of_data(extended: Zygote, spectra: Path) -> None:
    wrong = SPECTRA.replace("path: spectra.npz}", "path: spectra.npz, sampling: {kind: blocks}}")
    wrong = wrong.replace("spectra.npz", "spectra.txt")
    (spectra / "spectra.yaml").write_text(wrong + "task: regression\n")
    refused = extended.run(["check", "spectra.yaml"], spectra)
    assert refused.code == 2
    assert "spectra have no columns" in refused.output
    assert "data of kind spectra has no regression" in refused.output
    assert "spectra are read from .npz files" in refused.output
