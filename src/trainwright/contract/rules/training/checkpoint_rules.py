"""Rules on the checkpoints of a run."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.contract.document import Contract
from trainwright.contract.rules.target.metric_rules import task_of, watched_problems
from trainwright.core.errors import Problem

_SECTION = "training.checkpointing"


def check_ranking(contract: Contract, _written: frozenset[str]) -> Iterator[Problem]:
    """Checkpoints are ranked by a value measured on the validation rows."""
    ranked_by = contract.training.checkpointing.rank_by
    if ranked_by != "auto":
        path = "training.checkpointing.rank_by"
        yield from watched_problems(ranked_by, path, task_of(contract))


def check_spacing(contract: Contract, _written: frozenset[str]) -> Iterator[Problem]:
    """Measured spacing needs the time between failures, and nothing else looks at it."""
    section = contract.training.checkpointing
    every, failures = section.save_every_minutes, section.expected_hours_between_failures
    if every == "measured" and failures == "off":
        yield Problem(
            "the best spacing of saves hangs on how often the machine fails",
            path=f"{_SECTION}.save_every_minutes",
            found="measured",
            expected="expected_hours_between_failures beside it",
            fix="add for example expected_hours_between_failures: 24, or write a number of minutes",
        )
    if every not in ("auto", "measured") and failures != "off":
        yield Problem(
            f"expected_hours_between_failures has no effect on save_every_minutes: {every}",
            path=f"{_SECTION}.expected_hours_between_failures",
            found=str(failures),
            expected="save_every_minutes: measured",
            fix="remove one of the two",
        )


def check_remote(contract: Contract, _written: frozenset[str]) -> Iterator[Problem]:
    """An address is written into the record of the run, so it holds no secret."""
    remote = contract.training.checkpointing.remote
    if remote != "off":
        yield from problems_of_address(remote, f"{_SECTION}.remote")


def problems_of_address(address: str, path: str) -> Iterator[Problem]:
    """Whether a storage can be found by an address, and whether it holds a secret."""
    scheme, found, rest = address.partition("://")
    host = rest.partition("/")[0]
    if not found or not scheme.isalnum() or not rest:
        yield Problem(
            "this is no address of a storage",
            path=path,
            found=scheme[:40],
            expected="off, or an address such as s3://bucket/folder",
            fix="write it with its scheme: s3://, gs://, az:// or file:///",
        )
    elif "@" in host or "?" in rest or "#" in rest:
        yield Problem(
            "an address holds no user, password or key: it is written into the run's record",
            path=path,
            found=f"{scheme}://***",
            expected=f"{scheme}://bucket/folder",
            fix="give credentials through the environment, for S3 as AWS_ACCESS_KEY_ID and "
            "AWS_SECRET_ACCESS_KEY",
        )
