"""Rules on when a run is validated, measured and saved, and what it goes back to."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.contract.document import Contract
from trainwright.contract.rules.target.metric_rules import task_of, watched_problems
from trainwright.contract.sections.model import kinds_with
from trainwright.core.errors import Problem

_SECTION = "training.checkpointing"
_EVERY = tuple(f"training.validate_every_n_{unit}" for unit in ("epochs", "steps", "tokens"))
_INSPECT = "tracking.inspect"


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


def check_validations(contract: Contract, written: frozenset[str]) -> Iterator[Problem]:
    """Validations are spaced in one unit."""
    training = contract.training
    is_on = {
        _EVERY[0]: True,
        _EVERY[1]: training.validate_every_n_steps != "off",
        _EVERY[2]: training.validate_every_n_tokens != "off",
    }
    given = [path for path in _EVERY if path in written and is_on[path]]
    if len(given) > 1:
        yield Problem(
            "the spacing of validations is given more than once",
            path=given[1],
            found=" and ".join(path.rpartition(".")[2] for path in given),
            expected="one of them",
            fix=f"keep one, for example {given[1].rpartition('.')[2]}",
        )


def check_token_spacing(contract: Contract, _written: frozenset[str]) -> Iterator[Problem]:
    """Tokens are those of a text."""
    training = contract.training
    spacings = {
        _EVERY[2]: (training.validate_every_n_tokens, "validate_every_n_steps"),
        "training.checkpointing.save_every_n_tokens": (
            training.checkpointing.save_every_n_tokens,
            "save_every_n_steps",
        ),
    }
    for path, (spacing, instead) in spacings.items():
        if spacing != "off" and not contract.data.has_tokens:
            yield Problem(
                "only a text has tokens",
                path=path,
                found=f"data of kind {contract.data.kind}",
                expected="data of kind tokens",
                fix=f"rename it to {instead}, which counts optimizer steps",
            )


def check_validated_slices(contract: Contract, _written: frozenset[str]) -> Iterator[Problem]:
    """There are slices to measure."""
    if contract.training.validation.slices and not contract.slices:
        yield Problem(
            "there are no slices to measure",
            path="training.validation.slices",
            found="true",
            expected="slices in the contract",
            fix="add for example slices: [{column: region}], or remove it",
        )


VALIDATION_RULES = (check_validations, check_token_spacing, check_validated_slices)
"""All of them, for the list of rules."""


def check_inspect(contract: Contract, written: frozenset[str]) -> Iterator[Problem]:
    """Inspections are part of windows, and attention is part of a transformer."""
    tracking, model = contract.tracking, contract.model
    if tracking.inspect == "off":
        return
    if tracking.windows == "off":
        yield Problem(
            "what is inspected is written with the windows, and they are off",
            path=_INSPECT,
            expected="tracking.windows that are not off",
            fix="remove tracking.windows, or tracking.inspect",
        )
    asked = f"{_INSPECT}.which" in written and "attention" in tracking.inspect.which
    if asked and not model.traits.has_attention:
        attending = " or ".join(kinds_with(lambda traits: traits.has_attention))
        yield Problem(
            f"a model of kind {model.kind} has no causal attention, which is what is measured",
            path=f"{_INSPECT}.which",
            found="attention",
            expected="activations, silent_units, gradient_sizes",
            fix=f"remove attention, or choose model.kind {attending}",
        )


def check_sinks(contract: Contract, written: frozenset[str]) -> Iterator[Problem]:  # noqa: ARG001
    """MLflow is a server with an address."""
    if "mlflow" in contract.tracking.sinks and contract.tracking.mlflow_uri == "none":
        yield Problem(
            "the sink mlflow needs the address of its server",
            path="tracking.mlflow_uri",
            fix="name the server, such as http://127.0.0.1:5000, as tracking.mlflow_uri",
        )


def rollback_has_the_optimizer(contract: Contract, written: frozenset[str]) -> Iterator[Problem]:
    """A state without the optimizer's is not one to go back to."""
    training = contract.training
    if training.checkpointing.save_optimizer_state:
        return
    policies = (("non_finite", training.guard.non_finite), ("spike", training.guard.spike))
    for key, policy in policies:
        path = f"training.guard.{key}"
        if path in written and (policy == "rollback" or (key, policy) == ("non_finite", "skip")):
            yield Problem(
                f"{policy} needs checkpoints that hold the optimizer",
                path=path,
                found=policy,
                expected="training.checkpointing.save_optimizer_state true",
                fix=f"write training.checkpointing.save_optimizer_state: true, or {path}: raise",
            )
