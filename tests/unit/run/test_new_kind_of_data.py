"""A kind of data from the outside needs its own folder, and a line in each table."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pytest

pytest.importorskip("torch")

import trainwright
from faults.zygote import Zygote
from trainwright.core.files import read_json

TOYS = Path(__file__).resolve().parents[2] / "toys"
PACKAGE = Path(trainwright.__file__).parent

LINES = {
    "contract/sections/data/data.py": (
        (
            "from trainwright.contract.sections.data.images import ImageData\n",
            "from spectra.spectra_section import SpectraData\n",
        ),
        (
            '    | Annotated[ImageData, Tag("images")]\n',
            '    | Annotated[SpectraData, Tag("spectra")]\n',
        ),
    ),
    "contract/rules/rules_by_data.py": (
        (
            "from trainwright.contract.document import Contract\n",
            "from spectra.spectra_rules import SPECTRA_RULES\n"
            "from spectra.spectra_section import SpectraData\n",
        ),
        (
            "    SectionRules(TableData, TABLE_RULES),\n",
            "    SectionRules(SpectraData, SPECTRA_RULES),\n",
        ),
    ),
    "data/types.py": (
        (
            "from trainwright.data.encoders.pixel_statistics import Pixels\n",
            "from spectra.spectra_encoding import SpectraEncoding\n",
        ),
        ('    {"table": TableEncoder,', ' "spectra": SpectraEncoding,'),
    ),
    "planner/init/first_contract.py": (
        (
            "from trainwright.planner.init.guess_numbers import with_numbers\n",
            "from spectra.spectra_proposal import is_spectra, propose_spectra\n",
        ),
        ("PROPOSALS = (\n", "    Proposal(is_spectra, propose_spectra),\n"),
    ),
    "data/dispatch.py": (
        (
            '        "table": (f"{_HERE}.table_modality", "TableModality"),\n',
            '        "spectra": ("spectra.spectra_modality", "SpectraModality"),\n',
        ),
    ),
}
"""The registration: in each file, what follows which text."""

CONTRACT = """\
data: {kind: spectra, path: spectra.npz}
model: {kind: mlp, hidden: [16]}
metric: {name: accuracy, target: 0.9, resamples: 100}
training: {num_epochs: 6, batch_size: 32, early_stopping: "off"}
"""


@pytest.fixture(scope="module")
def outside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Zygote]:
    """Processes of a copy of the package that has the lines of the new kind, and its folder."""
    root = tmp_path_factory.mktemp("outside")
    shutil.copytree(PACKAGE, root / "trainwright", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(TOYS / "spectra", root / "spectra")
    for name, lines in LINES.items():
        file = root / "trainwright" / name
        text = file.read_text()
        for after, line in lines:
            assert text.count(after) == 1, f"{name}: {after}"
            text = text.replace(after, after + line)
        file.write_text(text)
    with Zygote(root) as running:
        yield running


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_spectra(tmp_path / "spectra.npz", 300, seed=0)
    write_spectra(tmp_path / "new.npz", 40, seed=1)
    (tmp_path / "spectra.yaml").write_text(CONTRACT)
    return tmp_path


def write_spectra(file: Path, rows: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    codes = random.integers(0, 3, rows)
    peaks = np.exp(-0.5 * (np.arange(12) - 2.0 - 4.0 * codes[:, None]) ** 2)
    intensities = peaks + random.normal(0, 0.15, peaks.shape)
    np.savez(file, intensities=intensities, substance=np.array(["a", "b", "c"])[codes])


def bits(run: Path) -> bytes:
    return (run / "bundle" / "network.safetensors").read_bytes()


def test_a_new_kind_of_data_trains_and_goes_on_after_a_kill_to_the_same_bits(
    outside: Zygote, folder: Path
) -> None:
    whole = outside.run(["train", "spectra.yaml", "--run", "whole"], folder)
    assert whole.code == 0, whole.output
    assert "300 spectra of 12 wavelengths" in whole.output
    named = ["train", "spectra.yaml", "--run", "cut"]
    assert outside.run(named, folder, fault="step.done:15:kill").code == -signal.SIGKILL
    resumed = outside.run([*named, "--resume"], folder)
    assert resumed.code == 0, resumed.output
    assert bits(folder / "runs" / "cut") == bits(folder / "runs" / "whole")


def test_a_new_kind_of_data_is_checked_predicted_judged_and_reported(
    outside: Zygote, folder: Path
) -> None:
    checked = outside.run(["check", "spectra.yaml"], folder)
    assert checked.code == 0, checked.output
    done = outside.run(["train", "spectra.yaml", "--run", "a"], folder, reports=True)
    assert done.code == 0, done.output
    run = folder / "runs" / "a"
    assert read_json(run / "bundle" / "features.json")["kind"] == "spectra"
    assert run.joinpath("report.html").stat().st_size > 10_000

    predicted = outside.run(["predict", "a", "new.npz", "-o", "out.csv"], folder)
    assert predicted.code == 0, predicted.output
    rows = pl.read_csv(folder / "out.csv")
    assert rows.height == 40
    assert (rows["prediction"] == rows["named"]).mean() > 0.9
    judged = outside.run(["evaluate", "a", "new.npz"], folder)
    assert judged.code == 0, judged.output


def test_init_proposes_a_contract_for_a_new_kind_of_data(outside: Zygote, folder: Path) -> None:
    done = outside.run(["init", "spectra.npz", "-o", "first.yaml"], folder)
    assert done.code == 0, done.output
    assert "kind: spectra" in (folder / "first.yaml").read_text()
    assert outside.run(["check", "first.yaml"], folder).code == 0


def test_the_rules_speak_of_a_new_kind_of_data(outside: Zygote, folder: Path) -> None:
    wrong = CONTRACT.replace("path: spectra.npz}", "path: spectra.npz, sampling: {kind: blocks}}")
    wrong = wrong.replace("spectra.npz", "spectra.txt")
    (folder / "spectra.yaml").write_text(wrong + "task: regression\n")
    refused = outside.run(["check", "spectra.yaml"], folder)
    assert refused.code == 2
    assert "spectra have no columns" in refused.output
    assert "data of kind spectra has no regression" in refused.output
    assert "spectra are read from .npz files" in refused.output
