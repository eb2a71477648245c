"""What of a contract may change while a run stands still: the list is right both ways. Row F-14."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from made_data import write_token_project  # noqa: E402
from stopped_runs import cut_run_of, run_of  # noqa: E402
from trainwright.contract.reading.read_contract import read_contract  # noqa: E402
from trainwright.contract.resumable_fields import FREE, differences, is_free  # noqa: E402
from trainwright.contract.sections.data.data_traits import DELIVERY  # noqa: E402
from trainwright.contract.sections.run_settings import Distributed  # noqa: E402
from trainwright.core.errors import ContractMistake, Interrupted  # noqa: E402
from trainwright.core.files import (  # noqa: E402
    Json,
    hash_file,
    read_json,
)
from trainwright.doctor.verify_run import verify_run  # noqa: E402
from trainwright.engine.stopping.stop_rules import StopReason, StopRequested  # noqa: E402
from trainwright.tracking.event_log import read_events  # noqa: E402
from trainwright.tracking.run_folder import RunFolder  # noqa: E402

pytestmark = pytest.mark.torch

CONTRACT = """
data: {kind: tokens, path: text.txt}
model: {kind: gpt, layers: 1, heads: 2, width: 16, context: 16, dropout: 0.1}
training: {num_epochs: 3, batch_size: 8, stop: {max_steps: 30}, optimizer: {learning_rate: 0.01}}
metric: {target: dummy, resamples: 100}
"""
CUT = 17
SECTION = "training.checkpointing"
CHANGES: dict[str, str] = {
    "name": "another",
    f"{SECTION}.save_every_n_steps": "3",
    f"{SECTION}.save_every_n_tokens": "1000",
    f"{SECTION}.save_every_minutes": "measured",
    f"{SECTION}.expected_hours_between_failures": "0.001",
    f"{SECTION}.keep_top_k": "1",
    f"{SECTION}.keep_last": "7",
    f"{SECTION}.keep_every_n_steps": "10",
    f"{SECTION}.remote": "file://{folder}/away",
    f"{SECTION}.asynchronous": "true",
    f"{SECTION}.on_failure": "continue",
    "resume.data_changed": "record",
    "resume.numerics_changed": "record",
    "resume.notice": "{folder}/notice",
    "resume.notice_every_seconds": "0.01",
    "resume.grace_seconds": "1000",
    "training.memory.margin": "0.3",
    "compute.threads": str(torch.get_num_threads()),
}
OF_A_BASE = {"model.revision", "model.base.commit", "model.base.licence"}
"""Of encoders of texts, whose own tests show them."""

OF_OWN_CODE = {"resume.code_changed"}
"""Of models of the user's own code, whose own tests show it."""

OF_TRACKERS = {
    f"tracking.{field}"
    for field in ("sinks", "mlflow_uri", "experiment", "tensorboard_folder", "drain_seconds")
}
"""Read by processes of their own, whose tests show them."""

OF_RANKS = {
    "training.gradient_accumulation_steps",
    *(f"distributed.{field}" for field in Distributed.model_fields),
}
"""Of several processes (test_ranks)."""

ELSEWHERE = {
    *OF_RANKS,
    *(f"data.{field}" for field in DELIVERY),
    *OF_A_BASE,
    *OF_OWN_CODE,
    *OF_TRACKERS,
}
"""Shown by the tests of the feed and those above."""


@pytest.fixture
def contract(tmp_path: Path) -> Path:
    return write_token_project(tmp_path, CONTRACT, sentences=150)


def left(run: Path) -> list[object]:
    """The model that is kept, and the loss of every step."""
    lines = (run / "signals.jsonl").read_text().splitlines()
    losses = [json.loads(line)["loss"] for line in lines]
    return [hash_file(run / "bundle" / "network.safetensors"), losses]


@pytest.mark.row("F-14")
def test_every_free_field_is_changed_and_no_bit_differs(contract: Path) -> None:
    assert set(CHANGES) | ELSEWHERE == FREE
    pytest.importorskip("fsspec")
    whole = run_of(contract, "whole")
    run = cut_run_of(contract, CUT)
    folder = str(contract.parent)
    changed = [f"{path}={value.format(folder=folder)}" for path, value in CHANGES.items()]
    assert run_of(contract, "cut", *changed, resume=True) == run
    assert left(run) == left(whole)
    (note,) = [e for e in read_events(run / "events.jsonl") if e.get("kind") == "contract_changed"]
    for path in CHANGES:
        assert (f"{path} " in note["message"]) == (not path.startswith("resume.")), path
    plan = read_json(run / "plan.json")
    assert plan["contract"]["training"]["checkpointing"]["keep_last"] == 7
    assert not [one for one in verify_run(RunFolder(run)) if one.status == "broken"]


@pytest.mark.row("F-14")
@pytest.mark.parametrize(
    "override",
    [
        "seed=1",
        f"{SECTION}.rank_by=val_loss",
        f"{SECTION}.save_optimizer_state=false",
        "training.optimizer.learning_rate=0.02",
        "training.guard.rollbacks=1",
        "training.mixed_precision=bf16",
        "metric.resamples=101",
        "budget.hours=1",
        "tracking.windows=off",
    ],
)
def test_another_experiment_is_refused(contract: Path, override: str, tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        # Nothing needs to be trained to compare contracts.
        patch.setattr(StopRequested, "reason", lambda *_: StopReason("interrupted", "a test"))
        with pytest.raises(Interrupted):
            run_of(contract, "cut")
        with pytest.raises(ContractMistake, match="started with another contract") as refused:
            run_of(contract, "cut", override, resume=True)
    assert override.partition("=")[0] in str(refused.value)


def leaves(value: Json, path: str = "") -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from leaves(inner, f"{path}.{key}" if path else key)
    else:
        yield path


def inside(path: str, section: str) -> bool:
    return f"{path}.".startswith(f"{section}.")


def put(value: Json, path: str, new: Json) -> Json:
    key, _, rest = path.partition(".")
    return {**value, key: put(value[key], rest, new) if rest else new}


@pytest.mark.row("F-14")
def test_each_field_is_either_free_or_part_of_the_experiment(
    contract: Path, figure: Callable[..., None]
) -> None:
    whole = read_contract(contract).contract.model_dump(mode="json")
    paths = list(leaves(whole))
    assert all(any(inside(path, free) for path in paths) for free in FREE - OF_A_BASE)
    for path in paths:
        expected = any(inside(path, free) for free in FREE)
        other = put(whole, path, "another")
        assert [change[0] for change in differences(whole, other)] == [path]
        assert is_free(path) == expected
    figure(fields=len(paths), fields_that_may_differ=len(list(filter(is_free, paths))))
