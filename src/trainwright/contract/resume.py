"""`resume`: how an interrupted run goes on, and how it learns that it is to be interrupted."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from trainwright.contract.section import Auto, Positive, Section

Determinism = Literal["bitwise", "run_to_run", "off"]

NoticePath = Annotated[str, Field(pattern="/")]
"""A path of a file with a slash in it, so that no misspelt cloud is taken for one."""


class Resume(Section):
    """How an interrupted run goes on: with the contract that it was started with."""

    data_changed: Literal["refuse", "record"] = "refuse"
    """When the data differs from the run's: `refuse` stops with exit code 11, `record` goes on and
    says so in the record."""

    determinism: Auto | Determinism = "auto"
    """How alike the run and its repetitions are. `bitwise`: only algorithms that give the same bits
    every time, an error where an operation has none, and no resume where the bits would differ.
    `run_to_run`: the same algorithms, but a warning where there is none, and a resume elsewhere
    says so and goes on. `off`: whatever is fastest. What it costs is measured at the start of a
    long run and stands in the record. `auto`: `bitwise` on a CPU, `off` on a GPU."""

    numerics_changed: Literal["refuse", "record"] = "refuse"
    """When `determinism: bitwise` meets another version of torch, number of threads, device or
    instruction set than the run's: `refuse` stops with exit code 2, `record` goes on and says so in
    the events."""

    notice: Literal["off", "aws", "gcp", "azure"] | NoticePath = "off"
    """Where it is asked whether this machine will be taken away, as spot machines are: the metadata
    service of `aws`, `gcp` or `azure`, or a file, such as /run/preempted, that a scheduler makes;
    a path that is not absolute starts at the contract's folder. At a notice the run ends as at
    SIGTERM: a checkpoint, exit code 75."""

    notice_every_seconds: Positive = 5.0
    """Seconds between two looks for a notice. A thread looks; the training does not wait for it."""

    grace_seconds: Auto | Positive = "auto"
    """Seconds that the machine lasts after a notice or SIGTERM. A step, a validation and a save
    that take longer than this are said aloud once, because a checkpoint might come too late.
    `auto`: 120 with `notice: aws`, else 30, which Azure, GCP and Kubernetes grant."""
