"""Boosting that is killed or stopped goes on from its kept trees, through the whole command."""

from __future__ import annotations

import json
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from command import CONTRACT, Ran, command, events_of_one, inside, project_in
from faults.tiers import each
from faults.zygote import Zygote
from trainwright.checkpoint.kept_trees import KeptTrees
from trainwright.core.files import read_json, write_json
from trainwright.model.tree_growth import NOTHING_GROWN
from trainwright.tracking.identity import RunIdentity

TREES = CONTRACT.replace(
    "max_trees: 5", "max_trees: 12\n  learning_rate: 0.05\n  early_stopping_rounds: 12"
)
OFTEN = ("--set", "training.checkpointing.save_every_minutes=1e-6", "--set", "metric.resamples=100")
JUDGED = (0, 3)
"""So few rows may leave the verdict open."""

MODEL = ("bundle/model.txt", "bundle/boosting.json")


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    yield from project_in(tmp_path, TREES)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, bytes]]:
    """The model of a run that nothing has stopped."""
    folder = tmp_path_factory.mktemp("whole")
    for _ in project_in(folder, TREES):
        assert command("train", "small.yaml", "--run", "one", *OFTEN).code in JUDGED
        yield model()


def model() -> dict[str, bytes]:
    return {name: Path("runs/one", name).read_bytes() for name in MODEL}


def kept() -> list[str]:
    return sorted(path.name for path in Path("runs/one/checkpoints").glob("*trees-*"))


Dies = Callable[..., int]


@pytest.fixture
def dies(zygote: Zygote) -> Dies:
    """Start or go on in a process of its own; how it ended."""

    def once(fault: str, *words: str) -> int:
        start = ("train", "small.yaml", "--run", "one", "--resume", *OFTEN, *words)
        return zygote.run(start, Path.cwd(), fault=fault).code

    return once


def goes_on() -> Ran:
    return command("resume", "runs/one")


def test_killed_twice_it_has_the_bytes_of_the_unbroken_run(
    project: Path, dies: Dies, whole: dict[str, bytes]
) -> None:
    assert dies("tree:6:kill") == -signal.SIGKILL
    assert kept() == ["trees-0000000004.json", "trees-0000000005.json"]
    listed = json.loads(command("runs", "checkpoints", "one", "--json").out)
    assert [(one["step"], one["newest"]) for one in listed] == [(4, False), (5, True)]
    assert dies("tree:3:kill") == -signal.SIGKILL
    assert kept() == ["trees-0000000006.json", "trees-0000000007.json"]
    ran = goes_on()
    assert ran.code in JUDGED, ran.err
    assert "goes on from tree 7, from trees-0000000007.json" in ran.err
    assert model() == whole
    assert [event["step"] for event in events_of_one("resumed")] == [5, 7]
    cut = [event["message"] for event in events_of_one("noted") if event["kind"] == "cut"]
    assert cut[-1] == "the run died after tree 7 or a later one without recording a reason"
    assert command("runs", "verify", "one").code == 0


def test_started_again_after_each_crash_it_comes_to_its_end(
    project: Path, dies: Dies, whole: dict[str, bytes]
) -> None:
    assert dies("tree:4:kill", "--restart", "9") in JUDGED
    assert [event["step"] for event in events_of_one("resumed")] == [3, 6, 9]
    assert model() == whole


@pytest.mark.parametrize("name", each(2, ["term", "int"]))
def test_a_signal_loses_no_tree_even_where_none_is_due(
    project: Path, dies: Dies, whole: dict[str, bytes], name: str
) -> None:
    rarely = ("--set", "training.checkpointing.save_every_minutes=auto")
    assert dies(f"tree:6:{name}", *rarely) == 75
    assert kept() == ["trees-0000000006.json"]
    assert goes_on().code in JUDGED
    assert model() == whole


def test_trees_are_kept_when_a_signal_asks_for_it(project: Path, dies: Dies) -> None:
    rarely = ("--set", "training.checkpointing.save_every_minutes=off")
    assert dies("tree:6:usr1,tree:9:kill", *rarely) == -signal.SIGKILL
    assert kept() == ["trees-0000000006.json"]


def test_killed_behind_the_growing_it_grows_nothing_again(
    project: Path, dies: Dies, whole: dict[str, bytes]
) -> None:
    assert dies("judge:1:kill") == -signal.SIGKILL
    assert dies("tree:1:kill") in JUDGED
    assert model() == whole


def test_a_damaged_file_is_set_aside_and_the_one_before_is_used(
    project: Path, dies: Dies, whole: dict[str, bytes]
) -> None:
    dies("tree:6:kill")
    damage("trees-0000000005.json")
    ran = goes_on()
    assert "goes on from tree 4" in ran.err
    assert "trees-0000000005.json: its hash is not the one in it" in ran.err
    assert model() == whole
    assert [name for name in kept() if name.startswith("quarantine-")]


def damage(name: str) -> None:
    path = Path("runs/one/checkpoints", name)
    path.write_text(path.read_text().replace("leaf_value=", "leaf_value=9", 1))


@pytest.mark.parametrize("damaged", [True, False])
def test_nothing_is_begun_anew_in_silence(project: Path, dies: Dies, damaged: bool) -> None:
    dies("tree:6:kill")
    for name in kept():
        if damaged:
            damage(name)
        else:
            Path("runs/one/checkpoints", name).unlink()
    for _ in range(2):
        ran = goes_on()
        assert ran.code == 12
        assert "does not start over" in ran.err


def test_trees_of_another_run_are_refused(project: Path, dies: Dies) -> None:
    dies("tree:6:kill")
    shutil.copytree("runs/one", "other")
    shutil.rmtree("runs")
    dies("tree:4:kill")
    shutil.copy("other/checkpoints/trees-0000000005.json", "runs/one/checkpoints")
    ran = goes_on()
    assert ran.code == 12
    assert "belong to another run" in ran.err


def test_another_text_with_a_right_hash_does_not_reach_the_library(
    project: Path, dies: Dies
) -> None:
    from trainwright.core.files import hash_value

    dies("tree:6:kill")
    path = Path("runs/one/checkpoints/trees-0000000005.json")
    content = read_json(path)["content"]
    content["grown"]["text"] = content["grown"]["text"].replace("version=v4", "version=v9", 1)
    write_json(path, {"content": content, "sha256": hash_value(content)})
    assert "trees-0000000005.json: its head of the LightGBM model cannot be" in goes_on().err


def test_trees_that_come_out_otherwise_are_all_grown_again(
    project: Path, dies: Dies, whole: dict[str, bytes]
) -> None:
    """As those of another version of the library, or of another processor."""
    from trainwright.core.files import hash_value

    dies("tree:6:kill")
    path = Path("runs/one/checkpoints/trees-0000000005.json")
    content = read_json(path)["content"]
    content["grown_with"]["lightgbm"] = "0.1"
    head, last = content["grown"]["text"].split("Tree=4\n")
    content["grown"]["text"] = f"{head}Tree=4\n{last.replace('shrinkage=0.05', 'shrinkage=0.06')}"
    write_json(path, {"content": content, "sha256": hash_value(content)})
    # A kill before the first new file leaves the old ones, which come out otherwise again.
    assert dies("tree:1:kill") == -signal.SIGKILL
    assert kept() == ["trees-0000000004.json", "trees-0000000005.json"]
    ran = goes_on()
    assert kept() == ["trees-0000000011.json", "trees-0000000012.json"]
    assert "the last of 5 kept trees comes out otherwise here (lightgbm 0.1 -> " in ran.err
    assert "all are grown again from the first" in ran.err
    assert model() == whole


def test_a_resumed_run_grows_with_as_many_threads_as_before(
    project: Path, dies: Dies, monkeypatch: pytest.MonkeyPatch
) -> None:
    from trainwright.core.files import hash_value

    monkeypatch.setattr("trainwright.run.learners.tree_learner.usable_cores", lambda: 4)
    dies("tree:6:kill")
    path = Path("runs/one/checkpoints/trees-0000000005.json")
    content = read_json(path)["content"]
    content["grown_with"]["threads"] = 3
    write_json(path, {"content": content, "sha256": hash_value(content)})
    assert "grown elsewhere" not in goes_on().err
    again = read_json(Path("runs/one/checkpoints") / kept()[-1])["content"]
    assert again["grown_with"]["threads"] == 3


def test_fewer_threads_are_refused_unless_that_is_accepted(project: Path, dies: Dies) -> None:
    """LightGBM sums the values that end the growing in another order."""
    from trainwright.core.files import hash_value

    dies("tree:6:kill")
    path = Path("runs/one/checkpoints/trees-0000000005.json")
    content = read_json(path)["content"]
    content["grown_with"]["threads"] = 2
    write_json(path, {"content": content, "sha256": hash_value(content)})
    again = ("train", "small.yaml", "--run", "one", "--resume", *OFTEN)
    again = (*again, "--set", "compute.threads=1")
    ran = command(*again)
    assert ran.code == 2
    assert "threads 2 -> 1" in ran.err
    assert "fix: resume with the same threads: --set compute.threads=2, or accept" in ran.err
    assert kept()[-1] == path.name
    accepted = command(*again, "--set", "resume.numerics_changed=record")
    assert accepted.code in JUDGED
    assert "grown elsewhere until now (threads 2 -> 1)" in accepted.err
    assert "not_exact" in [event["kind"] for event in events_of_one("noted")]


@pytest.mark.parametrize(
    ("edited", "what"),
    [({"best_trees": 2, "best_round": 2}, "the best of"), ({"is_done": True}, "the end of")],
)
def test_a_state_that_was_edited_is_said_and_grown_again(
    edited: dict[str, object],
    what: str,
    project: Path,
    dies: Dies,
    whole: dict[str, bytes],
) -> None:
    from trainwright.core.files import hash_value

    dies("tree:6:kill")
    path = Path("runs/one/checkpoints/trees-0000000005.json")
    content = read_json(path)["content"]
    content["grown"] |= edited
    write_json(path, {"content": content, "sha256": hash_value(content)})
    ran = goes_on()
    assert f"{what} 5 kept trees comes out otherwise here" in ran.err
    assert model() == whole


def test_a_full_disk_ends_the_run_or_is_counted(
    project: Path, dies: Dies, whole: dict[str, bytes]
) -> None:
    settings = ("--set", "training.checkpointing.on_failure=continue")
    with inside(project):
        nth = _writes_before_the_first_tree(project)
    assert dies(f"file.replace:{nth + 1}:enospc") == 13
    shutil.rmtree("runs")
    assert dies(f"file.replace:{nth + 1}:enospc", *settings) in JUDGED
    assert len(events_of_one("save_missed")) == 1
    assert model() == whole


def test_the_folder_is_made_with_the_first_trees(tmp_path: Path) -> None:
    store = KeptTrees(
        tmp_path / "run" / "checkpoints", RunIdentity.new("plan", "data"), lambda *_: NOTHING_GROWN
    )
    name, size = store.save(NOTHING_GROWN, {})
    assert (tmp_path / "run" / "checkpoints" / name).stat().st_size == size


def _writes_before_the_first_tree(project: Path) -> int:
    from trainwright.core import faultpoints

    faultpoints.arm("tree:1:raise,file.replace:999999:raise")
    try:
        with pytest.raises(faultpoints.FaultInjected):
            command("train", "small.yaml", "--run", "counted", *OFTEN)
        return faultpoints._armed[1].times
    finally:
        faultpoints.arm("")
        shutil.rmtree(project / "runs" / "counted", ignore_errors=True)
