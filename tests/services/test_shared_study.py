"""A study that several drivers share through a PostgreSQL server of Debian."""

from __future__ import annotations

import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from command import PROCESS, command, inside, write_project
from deadlines import within
from trainwright.core.files import read_json
from trainwright.tune.database import StudyDatabase

pytest.importorskip("optuna")
pytest.importorskip("psycopg")

pytestmark = [pytest.mark.extended, pytest.mark.timeout(900)]

COUNT = 12

CONTRACT = """\
name: small
data: {path: rows.csv, target: bought, positive: "yes"}
model: {kind: boosting, max_trees: 200, learning_rate: 0.005}
metric: {name: roc_auc}
tune:
  over:
    model.learning_rate: {low: 0.001, high: 0.01, scale: log}
    model.num_leaves: {low: 4, high: 31}
  trials: 12
  storage: DATABASE
"""


@pytest.fixture
def project(tmp_path: Path, postgres: str) -> Iterator[Path]:
    write_project(tmp_path, CONTRACT.replace("DATABASE", postgres), rows=3000)
    with inside(tmp_path):
        yield tmp_path


class Drivers:
    """Two processes on one study: the one that began it, and one that joined."""

    def __init__(self, folder: Path) -> None:
        self.study = folder / "runs" / "small-study-1"
        self.first = self._start("first", "tune", "small.yaml")
        wait_until((self.study / "study.json").is_file)
        self.joined = self._start(
            "joined", "tune", "small.yaml", "--join", str(self.study), "--set", "tune.trials=20"
        )

    def _start(self, name: str, *words: str) -> subprocess.Popen[bytes]:
        with Path(f"{name}.txt").open("wb") as said:
            return subprocess.Popen([*PROCESS, *words], stderr=said, stdout=said)

    def at_work(self) -> set[int]:
        """Trials that were begun and have not ended."""
        begun = {path.name[:4] for path in self.study.glob("trials/*.asked.json")}
        return {int(name) for name in begun if not (self.study / f"trials/{name}.json").is_file()}

    def ended(self) -> list[int]:
        paths = self.study.glob("trials/????.json")
        return sorted(int(path.stem) for path in paths)

    def kill(self) -> None:
        for process in (self.first, self.joined):
            process.kill()
            process.wait()


@pytest.fixture
def drivers(project: Path) -> Iterator[Drivers]:
    started = Drivers(project)
    yield started
    started.kill()


def wait_until(is_reached: Callable[[], bool]) -> None:
    deadline = time.monotonic() + within(120)
    while not is_reached():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def states(postgres: str) -> dict[int, str]:
    """The trials of the newest study, as Optuna's own reader sees them."""
    import optuna

    with closing(StudyDatabase(postgres)) as opened:
        newest = max(
            optuna.get_all_study_summaries(opened.storage), key=lambda study: study._study_id
        )
        study = optuna.load_study(study_name=newest.study_name, storage=opened.storage)
        return {trial.number: trial.state.name for trial in study.get_trials()}


def check_whole(drivers: Drivers, postgres: str) -> None:
    """Every number was given once and has a value, in the files and in the database."""
    assert drivers.ended() == list(range(COUNT))
    values = [read_json(drivers.study / f"trials/{at:04d}.json")["value"] for at in range(COUNT)]
    assert all(0.5 < value <= 1 for value in values)
    assert states(postgres) == dict.fromkeys(range(COUNT), "COMPLETE")
    asked = [read_json(drivers.study / f"trials/{at:04d}.asked.json") for at in range(COUNT)]
    assert asked[0]["params"] == {}
    assert len({str(one["params"]) for one in asked}) == COUNT


def test_two_drivers_share_the_trials_and_one_judges(drivers: Drivers, postgres: str) -> None:
    assert drivers.joined.wait(within(300)) == 0, Path("joined.txt").read_text()
    assert drivers.first.wait(within(300)) in (0, 3), Path("first.txt").read_text()
    check_whole(drivers, postgres)
    assert len(list(drivers.study.rglob("evaluation.json"))) == 1
    lines = (drivers.study / "trials.csv").read_text().splitlines()
    assert [int(line.partition(",")[0]) for line in lines[1:]] == list(range(COUNT))


def test_trials_of_a_killed_driver_go_on_with_the_other(drivers: Drivers, postgres: str) -> None:
    wait_until(lambda: len(drivers.ended()) >= 3 and len(drivers.at_work()) == 2)
    drivers.joined.send_signal(signal.SIGKILL)
    assert drivers.first.wait(within(300)) in (0, 3), Path("first.txt").read_text()
    assert "is gone: it goes on here" in Path("first.txt").read_text()
    check_whole(drivers, postgres)
    assert len(list(drivers.study.rglob("evaluation.json"))) == 1


def test_a_study_whose_first_driver_was_killed_is_judged_when_it_resumes(
    drivers: Drivers, postgres: str
) -> None:
    wait_until(lambda: len(drivers.ended()) >= 3 and len(drivers.at_work()) == 2)
    drivers.first.send_signal(signal.SIGKILL)
    assert drivers.joined.wait(within(300)) == 0, Path("joined.txt").read_text()
    check_whole(drivers, postgres)
    assert not list(drivers.study.rglob("evaluation.json"))
    before = {path: path.read_bytes() for path in drivers.study.glob("trials/*.json")}
    assert command("tune", "small.yaml", "--study", "small-study-1", "--resume").code in (0, 3)
    assert {path: path.read_bytes() for path in drivers.study.glob("trials/*.json")} == before
    assert len(list(drivers.study.rglob("evaluation.json"))) == 1


def test_only_the_folder_of_a_study_of_this_contract_is_joined(project: Path) -> None:
    missing = command("tune", "small.yaml", "--join", "runs/none")
    assert missing.code == 2
    assert "there is no study to join" in missing.err


def test_a_database_that_does_not_answer_is_one_message(project: Path) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        url = f"postgresql://postgres@127.0.0.1:{silent.getsockname()[1]}/postgres"
        refused = command("tune", "small.yaml", "--set", f"tune.storage={url}")
    assert refused.code == 2
    assert "the database of the study cannot be used" in refused.err
    assert not Path("runs").exists()
