"""Networks of the user's own code: allowed by the command alone, and bound to the files that were
hashed."""

from __future__ import annotations

import io
import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pytest

torch = pytest.importorskip("torch")

import trainwright as tw  # noqa: E402
from canary import Killed  # noqa: E402
from command import command, inside  # noqa: E402
from contract_runs import bits, train  # noqa: E402
from made_image_bases import write_coloured  # noqa: E402
from trainwright.contract.sections.model import kinds_with  # noqa: E402
from trainwright.core.errors import Interrupted, Mistake  # noqa: E402
from trainwright.core.files import hash_file  # noqa: E402
from trainwright.core.process import code_allowed, is_code_allowed  # noqa: E402
from trainwright.core.progress import Progress  # noqa: E402
from trainwright.model.imported.load_target import find_code  # noqa: E402
from trainwright.run.prepare.prepare_run import make_ready  # noqa: E402
from trainwright.run.request import Request  # noqa: E402
from trainwright.run.screen import StageTimes, StreamScreen  # noqa: E402

pytestmark = pytest.mark.torch

NETS = """
from pathlib import Path

import torch
from torch import nn

import layers

Path(__file__).with_name("ran.txt").write_text("ran")


class Net(nn.Module):
    def __init__(self, shape, width):
        super().__init__()
        self.first = nn.Linear(shape.numeric, width)
        self.drop = nn.Dropout(0.2)
        self.last = layers.head(width, shape.outputs)

    def forward(self, numeric):
        return self.last(self.drop(torch.relu(self.first(numeric))))


def build(shape, width=8):
    return Net(shape, width)


def halved(model, batch):
    loss = nn.functional.cross_entropy(model(batch["numeric"]), batch["target"], reduction="sum")
    return loss / 2, len(batch["target"])


def mean(model, batch):
    return nn.functional.cross_entropy(model(batch["numeric"]), batch["target"])


def values(shape):
    net = Net(shape, 8)
    net.register_forward_pre_hook(lambda _module, given: given[0].sum().item() > 1e9 or None)
    return net


def nothing(shape):
    return None


def frozen(shape):
    return nn.Identity()


def narrow(shape):
    net = Net(shape, 8)
    net.last = nn.Linear(8, 7)
    return net


def lazy(shape):
    return nn.LazyLinear(2)


def ends(shape):
    raise SystemExit(0)
"""

LAYERS = """
from torch import nn


def head(width, outputs):
    return nn.Linear(width, outputs)
"""

CONTRACT = """\
name: own
data: {path: rows.csv, target: label, num_workers: 0}
model: {kind: imported, target: "nets:build", options: {width: 6}}
training:
  num_epochs: 3
  batch_size: 16
  optimizer: {learning_rate: 0.01}
  early_stopping: "off"
  mixed_precision: fp32
metric: {name: accuracy, target: 0.4, resamples: 100}
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return write_project(tmp_path)


def write_project(folder: Path) -> Path:
    draw = np.random.default_rng(0)
    first, second = draw.normal(size=(2, 150))
    label = np.where(first + second > 0, "up", "down")
    frame = pl.DataFrame({"first": first, "second": second, "label": label})
    frame.write_csv(folder / "rows.csv")
    (folder / "nets.py").write_text(NETS)
    (folder / "layers.py").write_text(LAYERS)
    (folder / "contract.yaml").write_text(CONTRACT)
    return folder / "contract.yaml"


@pytest.fixture(autouse=True)
def _modules(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setenv("TRAINWRIGHT_CACHE", str(tmp_path / "kept"))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if name.split(".")[0] in ("nets", "layers", "own_package"):
            del sys.modules[name]


def ran(contract: Path) -> bool:
    return contract.with_name("ran.txt").exists()


def refused(contract: Path, *words: str) -> str:
    """What a training that is allowed to run code says before it writes anything."""
    with inside(contract.parent):
        done = command("train", "contract.yaml", "--allow-code", *words)
    assert done.code == 2, (done.out, done.err)
    assert not (contract.parent / "runs").exists()
    assert "Traceback" not in done.err
    return done.err


def test_nothing_runs_without_the_permission(project: Path) -> None:
    with inside(project.parent):
        for words in (("train", "contract.yaml"), ("check", "contract.yaml")):
            done = command(*words)
            assert done.code == 2
            assert "--allow-code" in done.err
            assert done.err.count("model.target") == 1
    for call in (tw.train, tw.fit, tw.prepare):
        with pytest.raises(Mistake, match="only where that is allowed"):
            call(str(project))
    assert not ran(project)
    assert not (project.parent / "runs").exists()
    assert not is_code_allowed()


def test_a_contract_cannot_allow_it(project: Path) -> None:
    project.write_text(f"{CONTRACT}allow_code: true\n")
    with pytest.raises(Mistake, match="allow_code"):
        tw.train(str(project))
    assert not ran(project)


def test_it_trains_judges_and_predicts(project: Path) -> None:
    with inside(project.parent):
        done = command("train", "contract.yaml", "--run", "one", "--allow-code")
        assert done.code in (0, 3), done.err
        assert "--allow-code" in done.out.split("next")[1].splitlines()[0]
        assert ran(project)
        without = command("predict", "one", "rows.csv", "-o", "out.csv")
        assert without.code == 2
        assert "--allow-code" in without.err
        allowed = command("predict", "one", "rows.csv", "-o", "out.csv", "--allow-code")
        assert allowed.code == 0, allowed.err
        assert command("evaluate", "one", "rows.csv", "--allow-code").code in (0, 3)
        assert command("explain", "one", "--allow-code", "--seconds", "1").code == 0
        assert command("weights", "export", "one", "--allow-code").code == 0
    run = project.parent / "runs" / "one"
    hashes = {name: hash_file(project.with_name(f"{name}.py")) for name in ("nets", "layers")}
    planned = json.loads((run / "plan.json").read_text())["contract"]["model"]
    assert planned["source"] == {"files": hashes}
    assert json.loads((run / "bundle/network.json").read_text())["model"] == planned
    assert str(project.parent) not in (run / "bundle/network.json").read_text()


@pytest.mark.extended
def test_from_python(project: Path) -> None:
    runs = project.parent / "runs"
    trained = tw.train(str(project), runs=runs, name="one", allow_code=True)
    rows = pl.read_csv(project.with_name("rows.csv"))
    first = trained.predictor.predict(rows)
    with pytest.raises(Mistake, match="only where that is allowed"):
        tw.load(trained.folder)
    assert tw.load(trained.folder, allow_code=True).predict(rows).equals(first)
    fitted = tw.fit(str(project), runs=runs, name="two", progress=False, allow_code=True)
    assert tw.judge(fitted, progress=False).predictor.predict(rows).equals(first)
    prepared = tw.prepare(str(project), allow_code=True)
    with pytest.raises(Mistake, match="only where that is allowed"):
        tw.fit(prepared, runs=runs, progress=False)
    assert not is_code_allowed()


def test_a_bundle_elsewhere_finds_its_code_where_it_is_read(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with inside(project.parent):
        command("train", "contract.yaml", "--run", "one", "--allow-code")
    other = project.parent / "elsewhere"
    other.mkdir()
    bundle = (project.parent / "runs/one/bundle").rename(other / "bundle")
    code = {name: project.with_name(f"{name}.py").read_text() for name in ("nets", "layers")}
    for name in code:
        project.with_name(f"{name}.py").unlink()
    monkeypatch.chdir(other)
    with pytest.raises(Mistake, match="no such module"):
        tw.load(bundle, allow_code=True)
    for name, text in code.items():
        (other / f"{name}.py").write_text(text)
    assert tw.load(bundle, allow_code=True).predict({"first": [1.0], "second": [2.0]}).height == 1


@pytest.mark.parametrize("name", ["nets", "layers"])
def test_other_code_is_refused_before_it_runs(project: Path, name: str) -> None:
    with inside(project.parent):
        command("train", "contract.yaml", "--run", "one", "--allow-code")
    project.with_name("ran.txt").unlink()
    with project.with_name(f"{name}.py").open("a") as stream:
        stream.write("\n# another\n")
    with pytest.raises(Mistake, match="code of the model has changed"):
        tw.load(project.parent / "runs/one", allow_code=True)
    assert not ran(project)


def test_a_resume_is_exact_and_refuses_other_code(project: Path) -> None:
    saves = "training.checkpointing.save_every_n_steps=2"
    with code_allowed(True):
        whole = train(project, "whole", saves)
        with pytest.raises(Killed):
            train(project, "cut", saves, dies_at=7)
        assert bits(train(project, "cut", saves)) == bits(whole)


class TerminatesAt:
    """Sends SIGTERM to its own process after five steps, as a cluster does."""

    def reason(self, progress: Progress) -> None:
        if progress.step == 5:
            os.kill(os.getpid(), signal.SIGTERM)


def test_a_resume_with_other_code_is_accepted_by_name(project: Path) -> None:
    words = ("train", "contract.yaml", "--run", "one", "--allow-code")
    with inside(project.parent):
        with pytest.raises(Interrupted, match="--resume --allow-code"):
            tw.fit("contract.yaml", name="one", stop_rules=[TerminatesAt()], allow_code=True)
        text = project.with_name("nets.py").read_text()
        project.with_name("nets.py").write_text(text.replace("Dropout(0.2)", "Dropout(0.1)"))
        again = command(*words, "--resume")
        assert again.code == 2
        assert "another code of its model" in again.err
        assert "resume.code_changed=record" in again.err
        resumed = command(*words, "--resume", "--set", "resume.code_changed=record")
        assert resumed.code in (0, 3), resumed.err
    events = (project.parent / "runs/one/events.jsonl").read_text()
    assert "model.source.files.nets" in events


@pytest.mark.extended
def test_images_and_tokens(tmp_path: Path) -> None:
    write_project(tmp_path)
    (tmp_path / "nets.py").write_text(
        """
from torch import nn


class Eyes(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(shape.size[0], 8, 3, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()
        )
        self.last = nn.Linear(8, shape.outputs)

    def forward(self, pixels):
        return self.last(self.body(pixels / 255))


class Reader(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.table = nn.Embedding(shape.outputs, 8)
        self.last = nn.Linear(8, shape.outputs)

    def forward(self, tokens):
        return self.last(self.table(tokens))
"""
    )
    images = write_coloured(tmp_path / "images")
    (tmp_path / "text.txt").write_text("abc abd " * 400)
    common = {
        "training": {"num_epochs": 2, "batch_size": 16},
        "metric": {"name": "accuracy", "target": 0.1, "resamples": 100},
    }
    own = {
        **common,
        "name": "eyes",
        "data": {"kind": "images", "path": str(images)},
        "model": {"kind": "imported", "target": "nets:Eyes"},
    }
    with inside(tmp_path):
        run = tw.train(own, runs=tmp_path / "runs", name="eyes", allow_code=True)
        pixels = np.zeros((2, 3, 20, 20), dtype=np.uint8)
        assert run.predictor.predict(pixels).height == 2
        assert "colours" in run.evaluation.baselines
        own |= {
            "data": {"kind": "tokens", "path": str(tmp_path / "text.txt")},
            "model": {"kind": "imported", "target": "nets:Reader", "context": 16},
            "metric": {"name": "nats_per_token", "target": 3.0, "resamples": 100},
        }
        read = tw.train(own, runs=tmp_path / "runs", name="reader", allow_code=True)
        assert read.evaluation.metrics["nats_per_token"].value < 3


def ready(contract: Path, *settings: str) -> int:
    """Parameters that the plan counts."""
    with code_allowed(True):
        said = StreamScreen(io.StringIO())
        found = make_ready(Request(contract, settings, contract.parent), StageTimes(), said)
    return found.plan.estimate.parameters


def test_the_plan_counts_it_with_and_without_values(project: Path) -> None:
    state = torch.random.get_rng_state()
    assert ready(project) == 2 * 6 + 6 + 6 * 2 + 2
    assert ready(project, "model.target=nets:values", "model.options={}") == 2 * 8 + 8 + 8 * 2 + 2
    assert torch.equal(torch.random.get_rng_state(), state)


def test_the_objective_is_the_loss_of_the_training(project: Path) -> None:
    with code_allowed(True):
        usual = train(project, "usual", "training.stop.max_steps=1").signals["loss"]
        half = train(project, "half", "training.stop.max_steps=1", "model.objective=nets:halved")
    assert half.signals["loss"][0] == pytest.approx(usual[0] / 2)
    with code_allowed(True), pytest.raises(Mistake, match="no sum and number of targets"):
        train(project, "mean", "model.objective=nets:mean")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"target": "nets:missing"}, "no function missing"),
        ({"target": "absent:build"}, "there is no such module"),
        ({"target": "nets:nothing"}, "returns no network"),
        ({"target": "nets:frozen"}, "no parameters to train"),
        ({"target": "nets:narrow"}, "another shape than the task"),
        ({"target": "nets:lazy"}, "parameters without a size"),
        ({"target": "nets:ends"}, "SystemExit"),
        ({"target": "nets:build", "options": {"depth": 3}}, "unexpected keyword argument"),
        ({"target": "nets.build"}, "model.target"),
    ],
)
def test_code_that_does_not_fit_is_told_in_one_message(
    project: Path, settings: dict[str, object], said: str
) -> None:
    model = {"options": {}, "kind": "imported", **settings}
    message = refused(project, "--set", f"model={json.dumps(model)}")
    assert said in message
    assert "fix:" in message


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("def build(:", "the code cannot be read"),
        ("1 / 0", "ZeroDivisionError: division by zero (nets.py, line 1)"),
        ("import not_installed_anywhere", "ModuleNotFoundError"),
        ("raise SystemExit(0)", "SystemExit"),
    ],
)
def test_code_that_fails_is_told_in_one_message(project: Path, code: str, said: str) -> None:
    project.with_name("nets.py").write_text(code)
    assert said in refused(project)


def test_modules_of_one_name_in_two_folders_stay_apart(project: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    write_project(other)
    wider = NETS.replace("width=8", "width=3").replace(
        "nn.Linear(shape.numeric, width)", "nn.Linear(shape.numeric, width, bias=False)"
    )
    (other / "nets.py").write_text(wider)
    assert ready(project) == 32
    assert ready(other / "contract.yaml") == 26
    assert ready(project) == 32


def test_what_stands_in_a_package_is_hashed_with_its_relative_imports(tmp_path: Path) -> None:
    package = tmp_path / "own_package"
    (package / "inner").mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "inner" / "__init__.py").write_text("from . import near\n")
    (package / "inner" / "near.py").write_text("from ..far import far\nimport json, torch\n")
    (package / "far.py").write_text("far = 1\n")
    (package / "unused.py").write_text("unused = 1\n")
    names = {"", ".inner", ".inner.near", ".far"}
    for folders in ([tmp_path], [tmp_path / "nowhere"]):
        with pytest.MonkeyPatch.context() as patch:
            patch.syspath_prepend(tmp_path)
            found = find_code(["own_package.inner.near"], folders)
        assert set(found.files) == {f"own_package{name}" for name in names}
    assert "own_package" not in sys.modules


def test_no_fix_proposes_it() -> None:
    assert "imported" not in kinds_with(lambda _: True)
