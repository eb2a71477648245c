"""`resume`: how an interrupted run resumes, and how preemption is detected."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from trainwright.contract.sections.section import Auto, Positive, Section

Determinism = Literal["bitwise", "run_to_run", "off"]

NoticePath = Annotated[str, Field(pattern="/")]
"""A file path with a slash, so that no misspelt cloud is taken for one."""


class Resume(Section):
    """How an interrupted run resumes: with the contract that it was started with."""

    data_changed: Literal["refuse", "record"] = "refuse"
    """If the data differs from the run's: `refuse` stops with exit code 11, `record` continues and
    notes it in the record."""

    code_changed: Literal["refuse", "record"] = "refuse"
    """If the code of a model of `kind: imported` differs from the run's: `refuse` stops with exit
    code 2, `record` continues with the new code and notes its hashes in the events."""

    determinism: Auto | Determinism = "auto"
    """How alike the run and its repetitions are. `bitwise`: only algorithms that give the same bits
    every time, an error where an operation has none, and no resume where the bits would differ.
    `run_to_run`: the same algorithms, but a warning where there is none, and a resume elsewhere
    says so and goes on. `off`: whatever is fastest. What it costs is measured at the start of a
    long run and stands in the record. `auto`: `bitwise` on a CPU, `off` on a GPU."""

    numerics_changed: Literal["refuse", "record"] = "refuse"
    """If `determinism: bitwise` meets another torch version, thread count, device or instruction
    set than the run's: `refuse` stops with exit code 2, `record` continues and notes it in the
    events."""

    notice: Literal["off", "aws", "gcp", "azure"] | NoticePath = "off"
    """Source of preemption notices, for spot machines: the metadata service of `aws`, `gcp` or
    `azure`, or a file, such as /run/preempted, created by a scheduler; a relative path starts at
    the contract's folder. On a notice the run ends as on SIGTERM: a checkpoint, exit code 75."""

    notice_every_seconds: Positive = 5.0
    """Seconds between polls for a notice. They are made by a thread; training does not wait for
    it."""

    grace_seconds: Auto | Positive = "auto"
    """Seconds that the machine lasts after a notice or SIGTERM. If a step, a validation and a save
    take longer than this, a warning is given once, because a checkpoint might come too late.
    `auto`: 120 with `notice: aws`, else 30, which Azure, GCP and Kubernetes grant."""
