"""What `check` warns of before a training, and what is to be written against it."""

from __future__ import annotations

from pathlib import Path

from advised.cases import Case, made_folder, problems_of, ready_of, ways_of, written
from advised.following import Values
from trainwright.core.errors import Problem
from trainwright.data.quality.finding import Finding
from trainwright.doctor.preflight import preflight

EPOCHS = "training.num_epochs=4"
PATIENT = "training.early_stopping={patience: 1}"
PLATEAU = "training.scheduler={name: reduce_on_plateau, patience: 3}"
PACKED = 'data={kind: tokens, path: notes.txt, windows: packed, separator: "\\n\\n"}'
PADDED = PACKED.replace("packed", "padded")
ALIKE = {f"texts/{name}/{at}.txt": f"{name} " * 10 for name in ("old", "new") for at in range(90)}

CASES = (
    Case(
        "write training.validate_every_n_steps: 1",
        (EPOCHS, PATIENT, "training.validate_every_n_steps=500"),
        "network",
    ),
    Case(
        "write training.validate_every_n_steps: 1 in the place of validate_every_n_epochs",
        (EPOCHS, PATIENT, "training.validate_every_n_epochs=4"),
        "network",
        does=(("training.validate_every_n_steps=1", "-training.validate_every_n_epochs"),),
    ),
    Case(
        "write training.validate_every_n_steps: 1",
        (EPOCHS, PLATEAU, "training.early_stopping=off"),
        "network",
    ),
    Case(
        "choose another model.context, or data.long_documents: split",
        (PACKED, "data.long_documents=cut"),
        "text",
        does=("model.context=64",),
    ),
    Case(
        "raise model.context, or write data.long_documents: split",
        (PADDED, "data.long_documents=cut"),
        "text",
        does=("model.context=64",),
    ),
    Case(
        "raise data.padding.buckets, lower data.padding.multiple, or write data.windows: "
        "packed and remove data.padding",
        (
            PADDED,
            "data.path=texts",
            "-data.separator",
            "model.context=64",
            "data.padding={multiple: 64, buckets: 1}",
        ),
        "text",
        does=(("data.windows=packed", "-data.padding"),),
        files=ALIKE,
    ),
    Case(
        "lower data.padding.multiple, or write data.windows: packed and remove data.padding",
        (
            PADDED,
            "data.path=texts",
            "-data.separator",
            "model.context=64",
            "data.padding={multiple: 64}",
            "data.sampling={kind: mixture}",
        ),
        "text",
        does=(("data.windows=packed", "-data.padding"),),
        files=ALIKE,
    ),
)


def warnings_of(values: Values, folder: Path) -> tuple[Finding, ...]:
    """What is found before a training, of the run and not of its data."""
    ready = ready_of(values, folder)
    return preflight(ready.plan, ready.prepared, (), (), folder)


def check_warning(case: Case, shared: Path, folder: Path) -> None:
    """The warning is there with its fix, and gone after every alternative."""
    folder = made_folder(case, shared, folder)
    values = written(case)
    before = warnings_of(values, folder)
    finding = next((each for each in before if each.fix == case.fix), None)
    assert finding, f"the fix is not said: {[(each.message, each.fix) for each in before]}"
    problem = Problem(finding.message, path="data", fix=finding.fix)
    ways = ways_of(case, values, problem)
    assert ways, f"{finding.fix!r} is not done in any way"
    for advice, changed in ways:
        assert not (left := problems_of(changed, folder)), f"{advice!r} makes a mistake: {left}"
        again = {(each.kind, each.fix) for each in warnings_of(changed, folder)}
        assert (finding.kind, finding.fix) not in again, f"{advice!r} mends nothing"
