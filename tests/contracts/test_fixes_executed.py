"""Every fix that names a key or a command is said by a case, in which it is done."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from advised import commands, findings, preflights, resuming, searching, tuning
from advised.tables import TABLES
from fix_literals import FixLiteral, fix_literals, names_a_key_or_command

EXECUTED = (
    *(case.fix for table in (*TABLES, preflights) for case in table.CASES),
    *(one.case.fix for one in findings.CASES),
    *(one.fix for one in (*commands.CASES, *resuming.CASES, *searching.CASES, *tuning.CASES)),
)

NOT_EXECUTED: Mapping[str, tuple[str, ...]] = {
    "installs what a test has": ("pip install",),
    "is for Python": (
        "api.py: ",
        "run/folder/check_own_files.py: let it end",
        "engine/update/optimizer_in_backward.py",
        "engine/loader_feed.py",
        "optim/layerwise_lr.py",
        "run/script/",
        "run/after/evaluate_rows.py: predict in the script",
        "checkpoint/states/optimizer_state.py: name those outside",
        "data/loading/feed.py: Feed(",
        "engine/execution/activation_checkpointing.py: model(",
        "run/prepare/prepare_run.py: prepare it with these values",
    ),
    "gives an example of a setting": ("run/after/data_quality.py: write for example",),
    "needs a process whose memory runs out": (
        "engine/update/step_mistakes.py: write a smaller training.batch_size",
    ),
    "needs a GPU": ("planner/data_rules.py: write exact",),
    "needs a program that is not installed everywhere": (
        "data/formats/json_lines.py: write one object",
    ),
    "needs a tokenizer that takes seconds": ("data/encoders/bpe.py: look at the patterns",),
    "needs an answer of half the memory": ("data/sources/sql.py: select fewer columns",),
    "names a number that is measured on the machine": ("planner/fit_to_budget.py: write budget.",),
    "needs a run of another family or kind of data": (
        "evaluation/explanations/contributions.py: trainwright explain RUN without rows",
        "run/after/explain_run.py: trainwright report",
        "run/after/explain_run.py: train a run with",
        "cli/texts/asked_texts.py: ",
        "cli/data/data_files.py: trainwright data distil",
        "cli/texts/show_questions.py: ",
        "run/after/distil_chats.py: ",
        "run/after/evaluate_harness.py: look at the file",
        "run/after/evaluate_questions.py: ",
        "data/encoders/vocabulary.py: leave out --chat",
        "data/modalities/chat_modality.py: trainwright evaluate RUN",
        "contract/rules/compatibility_rules.py: fine-tune a model",
        "run/after/generate_text.py: ",
        "run/after/caption_images.py: ",
        "data/captions/caption_encoding.py: trainwright generate",
        "run/after/export_folder.py: ",
        "run/after/export_int8.py: ",
        "run/teacher/teacher_states.py: ",
    ),
    "needs a base in a folder (test_decoder_bases, test_causal_lm, test_adapter_runs, "
    "test_vision_language)": (
        "model/adapters/",
        "model/gpt/",
        "model/causal_lm/",
        "model/vision_language/",
        "model/pretrained/hub_files.py: set ",
        "model/pretrained/encoder_adapter.py: name layers",
        "planner/init/first_contract.py: leave out --base",
        "planner/kinds/chat_planner.py: raise it to",
    ),
    "needs the permission to run code (test_imported)": (
        "model/imported/",
        "data/chats/chat_template.py: choose data.template",
    ),
    "needs a server (test_registry)": ("registry/registry.py: add --artifacts",),
    "needs several processes (test_ranks)": (
        "run/ranks/launch.py: ",
        "run/ranks/kubernetes.py: ",
        "run/request.py: train with the command",
        "distributed/strategy.py: take another norm",
    ),
    "needs 200,000 rows": ("model/neighbours/neighbours_family.py: model: {kind: boosting}",),
    "needs 32 GB on the disk": ("run/teacher/token_teacher.py: lower",),
    "needs 64 MB": ("data/formats/encodings.py: raise data.reading.most_unpacked_ratio",),
    "needs a vocabulary of 524,288 tokens": ("data/encoders/bpe.py: use a smaller one",),
    "a rule of the contract says it first": (
        "data/split/splits.py: set data.split.",
        "data/read_table.py: name a file",
    ),
    "changes files": (
        "model/pretrained/hub_files.py: convert them",
        "data/text/documents.py: of images",
        "data/images/mnist.py: ",
        "data/images/image_table.py: write what stands before",
        "data/sources/hf_dataset.py: name one",
        "data/quality/copies/near_duplicate_images.py: inspect them",
    ),
    "said of a file without a contract, whose split is not audited": (
        "data/quality/labels/label_noise.py: use a time or group split",
        "data/quality/copies/duplicates.py: data.quality.actions: {\x00: drop} removes",
    ),
    "needs the rows of many groups, times or wrong labels": (
        "data/audit/split_leaks.py: to generalise",
        "data/audit/interpolated_rows.py: interpolate",
        "data/audit/row_overlap.py: split by",
        "data/audit/split_leaks.py: to predict the future",
        "data/quality/labels/label_errors.py: inspect the rows",
        "data/columns/number_target.py: repair these rows",
    ),
}


def _is_excused(literal: FixLiteral) -> bool:
    said = f"{literal.file}: {literal.text}"
    starts = [text for texts in NOT_EXECUTED.values() for text in texts]
    return any(said.startswith(text) or literal.text.startswith(text) for text in starts)


def _times_said(literal: FixLiteral) -> int:
    """How many cases say it; one without values may be a part of what they say."""
    found = literal.pattern.fullmatch if literal.has_values else literal.pattern.search
    return sum(bool(found(fix)) for fix in EXECUTED)


def test_every_fix_that_names_a_key_or_a_command_is_executed() -> None:
    places = defaultdict(list)
    named = [one for one in fix_literals() if names_a_key_or_command(one)]
    for one in named:
        if not _is_excused(one):
            places[one.text].append(one)
    lacking = [str(one) for alike in places.values() for one in alike[_times_said(alike[0]) :]]
    assert not lacking, f"{len(lacking)} of {len(named)} fixes have no case:\n" + "\n".join(lacking)


def test_every_excuse_is_needed() -> None:
    named = [one for one in fix_literals() if names_a_key_or_command(one)]
    said = [text for one in named for text in (f"{one.file}: {one.text}", one.text)]
    for texts in NOT_EXECUTED.values():
        for text in texts:
            assert any(each.startswith(text) for each in said), f"no fix begins with {text!r}"


def test_fixes_are_found_however_they_are_handed_on() -> None:
    texts = {str(one).partition(": ")[2] for one in fix_literals()}
    assert "write training.validate_every_n_steps: {}" in texts, "yielded with a message"
    assert "{}, or remove training.memory.update" in texts, "with a field put in"
    assert "write gradient_clipping: off" in texts, "the place of a field"
    assert "copy the bundle again, or train again" in texts, "a constant"
    assert "mkdir -p {}" in texts, "one of several names"
    assert "run the script again: it resumes from the newest checkpoint" in texts, "an argument"
    assert len(fix_literals()) > 500
