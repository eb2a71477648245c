"""What `check` warns of before a training, and what is to be written against it."""

from __future__ import annotations

from pathlib import Path

from advised.cases import (
    ROWS,
    Base,
    Case,
    csv,
    made_folder,
    problems_of,
    ready_of,
    ways_of,
    written,
)
from advised.following import Values
from advised.rules_of_chats import CHATS, LONG
from made_pictures import samples
from trainwright.core.errors import Problem
from trainwright.data.quality.finding import Finding
from trainwright.doctor.preflight import preflight
from trainwright.run.audit_data import look_at_data

EPOCHS = "training.num_epochs=4"
PATIENT = "training.early_stopping={patience: 1}"
PLATEAU = "training.scheduler={name: reduce_on_plateau, patience: 3}"
PACKED = 'data={kind: tokens, path: notes.txt, windows: packed, separator: "\\n\\n"}'
PADDED = PACKED.replace("packed", "padded")
ALIKE = {f"texts/{name}/{at}.txt": f"{name} " * 10 for name in ("old", "new") for at in range(90)}
COPIED = [
    (f"own/{name}{copy}.png", f"{label},{name}", data)
    for name, label, data in samples(30, 8)
    for copy in ("", "-copy")
]
PICTURES = {path: data for path, _, data in COPIED}
SCENES = "\n".join(["image,label,scene", *(f"{path},{said}" for path, said, _ in COPIED)])

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
    Case(
        "raise model.context to 78",
        (CHATS, "model.context=60"),
        "text",
        does=("model.context=78",),
        files=LONG,
    ),
    Case(
        "data.split.folds tests every row",
        (),
        does=("data.split={kind: stratified, folds: 5}",),
        rows=csv(y=["yes" if at % 12 == 5 else "no" for at in range(ROWS)]),
    ),
    Case(
        "lower it, or write model: {kind: linear}",
        ("model={kind: boosting, min_data_in_leaf: 100, max_trees: 3}",),
        does=("model.min_data_in_leaf=5",),
    ),
    Case(
        "remove the copies from the files; data.fields.group keeps images of one scene on one side",
        ("data.path=table.csv",),
        "images",
        does=("data.fields.group=scene",),
        files={**PICTURES, "table.csv": SCENES},
    ),
)


def warnings_of(values: Values, folder: Path, base: Base) -> tuple[Finding, ...]:
    """What is found before a training of the run, and of images between the parts of the split."""
    ready = ready_of(values, folder)
    audited = look_at_data(ready).audited if base == "images" else ()
    return preflight(ready.plan, ready.raw.facts, ready.prepared, (), audited, folder)


def check_warning(case: Case, shared: Path, folder: Path) -> None:
    """The warning is there with its fix, and gone after every alternative."""
    folder = made_folder(case, shared, folder)
    values = written(case)
    before = warnings_of(values, folder, case.base)
    finding = next((each for each in before if each.fix == case.fix), None)
    assert finding, f"the fix is not said: {[(each.message, each.fix) for each in before]}"
    problem = Problem(finding.message, path="data", fix=finding.fix)
    ways = ways_of(case, values, problem)
    assert ways, f"{finding.fix!r} is not done in any way"
    for advice, changed in ways:
        assert not (left := problems_of(changed, folder)), f"{advice!r} makes a mistake: {left}"
        again = {(each.kind, each.fix) for each in warnings_of(changed, folder, case.base)}
        assert (finding.kind, finding.fix) not in again, f"{advice!r} mends nothing"
