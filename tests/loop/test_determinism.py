"""How alike repetitions of a run are: what is switched, what is refused at a resume, what it costs.

Row F-14: another number of threads between stop and resume.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from made_data import write_token_project  # noqa: E402
from stopped_runs import cut_run_of, run_of  # noqa: E402
from trainwright.core.errors import ContractMistake, Mistake  # noqa: E402
from trainwright.core.files import (  # noqa: E402
    Json,
    hash_file,
    read_json,
)
from trainwright.distributed import process_group  # noqa: E402
from trainwright.distributed.rank_share import RankShare  # noqa: E402
from trainwright.distributed.strategy import Packet, SingleProcess, combine_packets  # noqa: E402
from trainwright.engine.execution.kernel_settings import deterministic  # noqa: E402
from trainwright.planner.resolve import compute_choices  # noqa: E402
from trainwright.run.compose import compose_job  # noqa: E402
from trainwright.tracking.event_log import read_events  # noqa: E402

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(torch.cuda.is_available(), reason="the choice of a CPU"),
]

CUT, STEPS = 7, 10
CONTRACT = f"""
name: work
data: {{kind: tokens, path: text.txt}}
model: {{kind: gpt, layers: 1, heads: 2, width: 16, context: 16, dropout: 0.1}}
training: {{num_epochs: 2, batch_size: 8, early_stopping: off, stop: {{max_steps: {STEPS}}},
           checkpointing: {{save_every_n_steps: 5}}, optimizer: {{learning_rate: 0.01}}}}
metric: {{target: dummy, resamples: 100}}
"""
ACCEPT = "resume.numerics_changed=record"


@pytest.fixture
def contract(tmp_path: Path) -> Path:
    return write_token_project(tmp_path, CONTRACT, sentences=200)


@contextlib.contextmanager
def threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def cut(contract: Path, *overrides: str) -> Path:
    """A run on one thread that is stopped after some steps."""
    with threads(1):
        return cut_run_of(contract, CUT, *overrides)


def not_exact(run: Path) -> list[str]:
    events = read_events(run / "events.jsonl")
    return [event["message"] for event in events if event.get("kind") == "not_exact"]


def steps(run: Path) -> int:
    return len((run / "signals.jsonl").read_text().splitlines())


def undetermined() -> None:
    """Torch has no algorithm for it that gives the same bits every time, on no device."""
    torch.zeros(3).put_(torch.tensor([0, 1]), torch.ones(2), accumulate=False)


def test_what_a_level_does_with_an_operation_that_has_no_such_algorithm() -> None:
    with deterministic("off"):
        undetermined()
    with deterministic("run_to_run"), pytest.warns(UserWarning, match="deterministic"):
        undetermined()
    with deterministic("bitwise"), pytest.raises(RuntimeError, match="deterministic"):
        undetermined()


def settings() -> tuple[object, ...]:
    return (
        torch.get_deterministic_debug_mode(),
        torch.utils.deterministic.fill_uninitialized_memory,
        torch.backends.cudnn.benchmark,
        torch.backends.cudnn.deterministic,
    )


@pytest.mark.parametrize("level", ["bitwise", "run_to_run", "off"])
def test_every_setting_is_left_as_it_was_found(level: str) -> None:
    before = settings()
    torch.backends.cudnn.benchmark = True
    try:
        changed = settings()
        with deterministic(level):
            assert (settings() == changed) == (level == "off")
            assert torch.backends.cudnn.benchmark == (level == "off")
        assert settings() == changed
    finally:
        torch.backends.cudnn.benchmark = before[2]


@pytest.mark.row("F-14")
def test_other_threads_are_refused_before_a_step_and_nothing_is_lost(contract: Path) -> None:
    with threads(1):
        whole = run_of(contract, "whole")
    run = cut(contract)
    with threads(2), pytest.raises(Mistake, match="threads 1 -> 2") as refused:
        run_of(contract, "cut", resume=True)
    (problem,) = refused.value.problems
    assert problem.path == "resume.determinism"
    assert ACCEPT in problem.fix
    assert steps(run) == CUT
    with threads(1):
        run_of(contract, "cut", resume=True)
    weights = [hash_file(one / "bundle" / "network.safetensors") for one in (run, whole)]
    assert weights[0] == weights[1]
    assert not not_exact(run)


@pytest.mark.row("F-14")
@pytest.mark.parametrize("level", ["bitwise", "run_to_run"])
def test_other_threads_go_on_where_that_is_accepted_and_say_so(contract: Path, level: str) -> None:
    set_level = f"resume.determinism={level}"
    run = cut(contract, set_level)
    accepted = (ACCEPT,) if level == "bitwise" else ()
    with threads(2):
        run_of(contract, "cut", set_level, *accepted, resume=True)
    assert steps(run) == STEPS
    (note,) = not_exact(run)
    assert note.endswith("threads 1 -> 2")


@pytest.mark.row("F-14")
@pytest.mark.parametrize("threads_of_contract", [1, 2])
def test_the_same_threads_by_the_contract_are_the_same_bits(
    contract: Path, threads_of_contract: int
) -> None:
    """Begun by torch's own number, gone on by the contract's; a number that differs is refused."""
    with threads(1):
        whole = run_of(contract, "whole")
    run = cut(contract)
    by_contract = f"compute.threads={threads_of_contract}"
    if threads_of_contract == 2:
        with threads(1), pytest.raises(Mistake, match="threads 1 -> 2") as refused:
            run_of(contract, "cut", by_contract, resume=True)
        by_contract = "compute.threads=1"
        assert by_contract in refused.value.problems[0].fix
    with threads(2):
        run_of(contract, "cut", by_contract, resume=True)
    weights = [hash_file(one / "bundle" / "network.safetensors") for one in (run, whole)]
    assert weights[0] == weights[1]
    assert not not_exact(run)


class TwoRanks(SingleProcess):
    """The first of two ranks; the packets of the second are like its own."""

    world_size = 2
    share = RankShare(0, 2)

    def reduce(self, packet: Packet) -> Packet:
        return combine_packets([packet, packet])


@pytest.mark.row("F-14")
@pytest.mark.parametrize(("level", "accepted"), [("bitwise", ACCEPT), ("run_to_run", "")])
def test_another_number_of_ranks_is_refused_or_said(
    contract: Path, level: str, accepted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [f"resume.determinism={level}", "training.gradient_accumulation_steps=2"]
    run = cut(contract, *words)
    monkeypatch.setattr(process_group, "SingleProcess", TwoRanks)
    # The other rank is not there to score its rows.
    monkeypatch.setattr(compose_job, "share_validation", lambda validate, *_: validate)
    with threads(1):
        if accepted:
            with pytest.raises(Mistake, match="ranks 1 -> 2") as refused:
                run_of(contract, "cut", *words, resume=True)
            (problem,) = refused.value.problems
            assert refused.value.exit_code == 2
            assert problem.fix.startswith("resume with the same number of ranks, 1, or accept")
            assert ACCEPT in problem.fix
            assert steps(run) == CUT
            words.append(accepted)
        run_of(contract, "cut", *words, resume=True)
    (note,) = not_exact(run)
    assert note.endswith("ranks 1 -> 2")


@pytest.mark.row("F-14")
def test_another_level_is_another_contract(contract: Path) -> None:
    cut(contract)
    with threads(1), pytest.raises(ContractMistake, match=r"resume\.determinism"):
        run_of(contract, "cut", "resume.determinism=off", resume=True)


def determinism_of(run: Path) -> Json:
    return read_json(run / "record.json")["determinism"]


def test_the_record_says_why_the_cost_was_not_measured(contract: Path) -> None:
    found = determinism_of(run_of(contract, "one"))
    assert found["level"] == "bitwise"
    assert "too small" in found["cost"]["not_measured"]


def test_the_cost_is_measured_once_and_stands_in_the_record(
    contract: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("_SHORT_SECONDS", "_FEW_BATCHES", "_SMALL_BATCH"):
        monkeypatch.setattr(compute_choices, name, 0)
    run = cut(contract, "resume.determinism=run_to_run")
    found = determinism_of(run)
    assert found["level"] == "run_to_run"
    cost = found["cost"]
    assert cost["factor"] == cost["seconds_of_a_micro_batch"] / cost["without"]
    with threads(1):
        run_of(contract, "cut", "resume.determinism=run_to_run", resume=True)
    assert determinism_of(run) == found


def test_nothing_is_measured_where_it_is_off(
    contract: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("_SHORT_SECONDS", "_FEW_BATCHES", "_SMALL_BATCH"):
        monkeypatch.setattr(compute_choices, name, 0)
    found = determinism_of(run_of(contract, "one", "resume.determinism=off"))
    assert found == {"level": "off", "cost": {}}
