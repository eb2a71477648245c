"""Row F-60: the machine is lost, and only the copies in a bucket are left."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pytest

pytest.importorskip("torch")
pytest.importorskip("fsspec")

from faults.tiers import also_slow
from faults.trials import CANARIES, Canary, Reference, Trial, state_of
from faults.zygote import Death, Zygote
from object_store import object_store

pytestmark = [pytest.mark.torch, pytest.mark.row("F-60")]

References = Callable[[str], Reference]
ANY = 10**6
FOLDED = """
data:
  path: rows.csv
  target: bought
  positive: "yes"
  split: {kind: stratified, folds: 3}
model: {kind: mlp, hidden: [8], dropout: 0.2}
training:
  num_epochs: 4
  batch_size: 32
  early_stopping: {patience: 2, metric: val_loss}
  checkpointing: {save_every_n_steps: 4, keep_top_k: 1}
metric: {name: roc_auc, target: 0.6, resamples: 100}
"""


@pytest.fixture(scope="module")
def s3() -> Iterator[dict[str, str]]:
    """How the environment leads to an S3 server of our own."""
    with object_store() as settings:
        yield settings


@dataclass
class Lost:
    """A run whose machine is lost again and again."""

    trial: Trial
    url: str
    environment: dict[str, str]

    def dies(self, fault: str) -> None:
        """Train until SIGKILL at a point, and lose the disk."""
        self.trial.dies(fault)
        self.lose()

    def lose(self) -> None:
        """Only what is elsewhere is left."""
        shutil.rmtree(self.trial.run.path.parent)

    def resume(self, fault: str = "") -> Death:
        """A new machine goes on from the copies."""
        journal = str(self.trial.folder / "journal.txt")
        return self.trial.zygote.run(
            ["resume", self.url],
            self.trial.folder,
            fault=fault,
            journal=journal,
            environment=self.environment,
        )

    def ends_well(self) -> None:
        """Go on to the verdict."""
        death = self.resume()
        assert death.code in (0, 3), death.output


@pytest.fixture
def lost_in(
    zygote: Zygote, tmp_path: Path, request: pytest.FixtureRequest
) -> Callable[[str, Canary], Lost]:
    """A new run that copies to a place of this kind."""

    def lay(kind: str, canary: Canary) -> Lost:
        environment: dict[str, str] = {}
        remote = f"file://{tmp_path}/away"
        if kind == "s3":
            environment = request.getfixturevalue("s3")
            remote = f"s3://{_bucket(environment)}/runs"
        words = ("--set", f"training.checkpointing.remote={remote}")
        how = {"environment": environment}
        trial = Trial(zygote, canary, tmp_path / canary.name, words, how)
        return Lost(trial, f"{remote}/one", environment)

    return lay


def _bucket(environment: dict[str, str]) -> str:
    name = f"bucket-{uuid4().hex}"
    boto3 = pytest.importorskip("boto3")
    boto3.client(
        "s3",
        endpoint_url=environment["AWS_ENDPOINT_URL"],
        aws_access_key_id="testing",
        aws_secret_access_key="testing",
        region_name="us-east-1",
    ).create_bucket(Bucket=name)
    return name


DEATHS = [
    ("s3", "table", "copy.checkpoint:3:kill"),
    ("file", "table", "copy.file:20:kill"),
    ("file", "images", "copy.set:2:kill"),
    ("file", "text", "judge:1:kill"),
    ("s3", "table", "finish:1:kill"),
    ("s3", "images", "copy.file:20:kill"),
    ("s3", "text", "copy.set:3:kill"),
    ("file", "table", "export:1:kill"),
    ("s3", "text", "copy.checkpoint:2:kill"),
]
"""Without those of a step: how much is copied by then hangs on the speed of the machine."""


@pytest.mark.parametrize(("kind", "canary", "fault"), also_slow(DEATHS[:3], DEATHS[3:]))
def test_a_lost_machine_costs_no_bit(
    kind: str, canary: str, fault: str, reference: References, lost_in: Callable[..., Lost]
) -> None:
    run = lost_in(kind, CANARIES[canary])
    run.dies(fault)
    run.ends_well()
    run.trial.check(reference(canary), lost=ANY)


def test_two_machines_are_lost(reference: References, lost_in: Callable[..., Lost]) -> None:
    run = lost_in("file", CANARIES["table"])
    run.dies("copy.checkpoint:2:kill")
    assert run.resume("copy.checkpoint:2:kill").code == -9
    run.lose()
    run.ends_well()
    run.trial.check(reference("table"), lost=ANY)


def test_a_run_that_died_before_its_first_copied_checkpoint_begins_again(
    reference: References, lost_in: Callable[..., Lost]
) -> None:
    run = lost_in("s3", CANARIES["table"])
    run.dies("copy.checkpoint:1:kill")
    run.ends_well()
    assert [attempt.resumed_at for attempt in run.trial.attempts()] == [0, 0]
    run.trial.check(reference("table"), lost=ANY)


def test_what_was_cut_short_before_it_was_whole_is_no_run(
    reference: References, lost_in: Callable[..., Lost]
) -> None:
    run = lost_in("file", CANARIES["table"])
    run.dies("copy.set:1:kill")
    death = run.resume()
    assert death.code == 2, death.output
    assert "there are no copies of a run here" in death.output
    assert not run.trial.run.path.parent.exists()
    run.trial.ends_well()
    run.trial.check(reference("table"), lost=ANY)


def test_folds_come_back_too(lost_in: Callable[..., Lost], zygote: Zygote, tmp_path: Path) -> None:
    canary = Canary("folded", FOLDED, CANARIES["table"].make_data)
    whole = Trial(zygote, canary, tmp_path / "whole")
    whole.ends_well()
    run = lost_in("file", canary)
    run.dies("copy.checkpoint:5:kill")
    run.ends_well()
    assert state_of(run.trial.run) == state_of(whole.run)
