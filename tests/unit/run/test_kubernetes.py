"""The Job that `launch --kubernetes` writes: valid, and with the ranks of the contract."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from command import NETWORK, Ran, command, project_in

DDP = ("--set", "distributed.strategy=ddp", "--set", "distributed.num_gpus=8")
LAUNCH = ("launch", "small.yaml", "--kubernetes", "--image", "registry/tw:1", "--volume", "shared")


@pytest.fixture(autouse=True)
def _project(tmp_path: Path) -> Iterator[Path]:
    yield from project_in(tmp_path, NETWORK)


def written(*words: str) -> tuple[str, list[dict[str, object]]]:
    ran: Ran = command(*LAUNCH, *words)
    assert ran.code == 0, ran.err
    return ran.out, list(yaml.safe_load_all(ran.out))


def test_a_job_of_two_hosts() -> None:
    _, (service, job) = written(*DDP, "--hosts", "2", "--run", "Big_run.1")
    assert service["spec"]["selector"] == {"job-name": "big-run-1"}  # type: ignore[index]
    spec = json.loads(json.dumps(job["spec"]))
    assert (spec["completions"], spec["completionMode"]) == (2, "Indexed")
    (container,) = spec["template"]["spec"]["containers"]
    assert container["resources"]["limits"] == {"nvidia.com/gpu": 4}
    (script,) = container["args"]
    shell = subprocess.run(["sh", "-n"], input=script, text=True, capture_output=True)
    assert shell.returncode == 0, shell.stderr
    assert "--nnodes=2 --nproc-per-node=4" in script
    assert "--rdzv-endpoint=big-run-1-0.big-run-1:29400" in script
    command_line = script.partition("-m -- ")[2]
    assert command_line.startswith(
        "trainwright.cli.rank_process train small.yaml --run big-run-1 --resume --set"
    )


@pytest.mark.parametrize("words", [("--hosts", "4"), ("--cpu",), ("--restart", "0")])
def test_what_is_written_is_valid(words: tuple[str, ...]) -> None:
    validate = pytest.importorskip("kubernetes_validate", reason="needs kubernetes-validate")
    for document in written(*DDP, *words)[1]:
        validate.validate(document, validate.latest_version(), strict=True)


def test_torchrun_takes_the_options(monkeypatch: pytest.MonkeyPatch) -> None:
    run = pytest.importorskip("torch.distributed.run")
    (script,) = written(*DDP, "--hosts", "2")[1][1]["spec"]["template"]["spec"]["containers"][0][  # type: ignore[index]
        "args"
    ]
    options = re.sub(r"\\\n\s*", "", script).partition("exec torchrun ")[2].split()
    parsed = run.get_args_parser().parse_args(options)
    assert (parsed.nnodes, parsed.nproc_per_node, parsed.rdzv_id) == ("2", "4", "small")


@pytest.mark.parametrize(
    "words", [(), (*DDP, "--hosts", "3"), ("--set", "distributed.strategy=ddp")]
)
def test_processes_that_cannot_be_divided_are_refused(words: tuple[str, ...]) -> None:
    ran = command(*LAUNCH, *words)
    assert ran.code == 2
    assert "cannot be divided among" in ran.err


def test_what_is_written_has_to_be_said() -> None:
    ran = command("launch", "small.yaml", "--image", "a", "--volume", "b", *DDP)
    assert ran.code == 2
    assert "--kubernetes" in ran.err
