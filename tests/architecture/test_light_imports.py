"""What imports what, seen from a fresh interpreter: the light install and the quick start."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from command import write_project
from deadlines import within
from trainwright.contract.sections.model import sections

PACKAGE = Path(__file__).resolve().parents[2] / "src" / "trainwright"

LIGHT_STAGES = (
    "core",
    "contract",
    "tracking",
    "data",
    "model",
    "predictor",
    "evaluation",
    "registry",
    "serving",
    "monitoring",
    "planner",
    "doctor",
    "run",
    "report",
    "cli",
)
"""Every stage that a table with boosting passes through."""

WHOLE_PACKAGES_NEED_TORCH = ("data/loading", "run/compose")

NEEDS_TORCH = frozenset(
    {
        "trainwright.run.ranks.follow",
        "trainwright.run.ranks.torchrun",
        "trainwright.model.causal_attention",
        "trainwright.model.model_call",
        "trainwright.model.build_network",
        "trainwright.model.count_network",
        "trainwright.model.ft_transformer.ft_transformer_network",
        "trainwright.model.causal_lm.causal_network",
        "trainwright.model.bi_encoder.bi_encoder_network",
        "trainwright.model.dual_encoder.dual_encoder_network",
        "trainwright.model.gpt.divide_gpt",
        "trainwright.model.gpt.gpt_network",
        "trainwright.model.gpt.stage_gpt",
        "trainwright.model.imported.own_network",
        "trainwright.model.adapters.inject_adapter",
        "trainwright.model.adapters.merge_adapter",
        "trainwright.model.adapters.quantized_linear",
        "trainwright.model.adapters.soft_prompt",
        "trainwright.model.gpt.decoder_adapter",
        "trainwright.model.pretrained.encoder_adapter",
        "trainwright.model.pretrained.image_classifier",
        "trainwright.model.pretrained.sequence_classifier",
        "trainwright.model.residual",
        "trainwright.model.row_state",
        "trainwright.model.resnet.resnet_network",
        "trainwright.model.mlp.mlp_network",
        "trainwright.model.table_columns",
        "trainwright.model.tabular_resnet.tabular_resnet_network",
        "trainwright.model.vision_language.vision_language_network",
        "trainwright.predictor.continuation_likelihood",
        "trainwright.predictor.image_captions",
        "trainwright.predictor.network_scorer",
        "trainwright.predictor.predicted_tokens",
        "trainwright.predictor.text_generation",
        "trainwright.run.after.caption_images",
        "trainwright.run.after.evaluate_questions",
        "trainwright.run.after.distil_chats",
        "trainwright.run.after.evaluate_harness",
        "trainwright.run.after.export_folder",
        "trainwright.run.after.export_int8",
        "trainwright.run.after.generate_text",
        "trainwright.run.after.export_onnx",
        "trainwright.run.after.export_weights",
        "trainwright.run.contact_sheet",
        "trainwright.run.folder.exact_resume",
        "trainwright.run.extend.plan_extension",
        "trainwright.run.extend.starting_point",
        "trainwright.run.judging.judge_questions",
        "trainwright.run.judging.judge_captions",
        "trainwright.run.judging.judge_texts",
        "trainwright.run.learners.network_learner",
        "trainwright.run.recover.recover_parts",
        "trainwright.run.recover.recover_run",
        "trainwright.run.script.check_buffers",
        "trainwright.run.script.check_generators",
        "trainwright.run.script.check_job",
        "trainwright.run.script.check_loader",
        "trainwright.run.script.check_tensors",
        "trainwright.run.script.fit_job",
        "trainwright.run.script.job_settings",
        "trainwright.run.script.same_settings",
        "trainwright.run.script.script_run",
        "trainwright.run.teacher.token_teacher",
        "trainwright.run.trial.compute_trial",
        "trainwright.run.trial.rehearse",
        "trainwright.run.trial.worker_trial",
    }
)
"""Beside those packages, the modules that cannot be imported without torch: all of them, and no
other."""

OTHER_LIBRARIES = {"xgboost", "catboost"}
"""What only a contract that asks for another library of trees may load."""

HEAVY = (
    *("torch", "numpy", "polars", "sklearn", "scipy", "lightgbm", "matplotlib", "pydantic"),
    *OTHER_LIBRARIES,
)
"""What a command that computes nothing must not wait for."""

REFUSE = """
import importlib, json, sys

ABSENT = {"torch", "safetensors", "jaxtyping", "beartype", "hypothesis", "pytest"}

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ABSENT:
            raise ModuleNotFoundError(f"refused: {name}", name=name)

sys.meta_path.insert(0, Refuse())
failed = {}
for name in json.loads(sys.argv[1]):
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        failed[name] = str(error)
print(json.dumps(failed))
"""

LOADED = """
import json, sys

sys.argv = json.loads(sys.argv[1])
try:
    {statement}
except SystemExit as ending:
    assert ending.code in (0, None), ending.code
print()
print(json.dumps(sorted(name for name in sys.modules if "." not in name)))
"""


def last_line(program: str, argument: object) -> object:
    done = subprocess.run(
        [sys.executable, "-c", program, json.dumps(argument)],
        capture_output=True,
        text=True,
        check=False,
        timeout=within(100),
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def light_modules() -> list[str]:
    return [name for stage in LIGHT_STAGES for name in modules_of(stage)]


def modules_of(folder: str) -> list[str]:
    files = sorted((PACKAGE / folder).rglob("*.py"))
    parts = [path.relative_to(PACKAGE.parent).with_suffix("").parts for path in files]
    return [".".join(part for part in names if part != "__init__") for names in parts]


def needs_torch() -> set[str]:
    packages = {f"trainwright.{folder.replace('/', '.')}" for folder in WHOLE_PACKAGES_NEED_TORCH}
    whole = {name for folder in WHOLE_PACKAGES_NEED_TORCH for name in modules_of(folder)}
    return NEEDS_TORCH | whole - packages


def test_exactly_the_named_modules_need_torch() -> None:
    failed = last_line(REFUSE, light_modules())
    assert isinstance(failed, dict)
    assert set(failed) == needs_torch(), failed


def test_help_waits_for_nothing_heavy() -> None:
    program = LOADED.replace("{statement}", "from trainwright.cli.main import main; main()")
    loaded = last_line(program, ["trainwright", "--help"])
    assert isinstance(loaded, list)
    assert "trainwright" in loaded
    assert not set(HEAVY) & set(loaded)


def test_a_training_waits_for_no_library_that_only_some_data_need() -> None:
    """The first step of a text or of images comes sooner."""
    statement = "from trainwright.run.train import train"
    loaded = last_line(LOADED.replace("{statement}", statement), [""])
    assert isinstance(loaded, list)
    assert not {"torch", "sklearn", "scipy", "lightgbm", "pandas", "matplotlib"} & set(loaded)


def test_a_training_waits_for_nothing_that_comes_behind_it() -> None:
    """What shows results is loaded when there are some."""
    program = LOADED.replace("{statement}", "import trainwright.cli.train_resume")
    loaded = last_line(program.replace('if "." not in name', ""), [""])
    assert isinstance(loaded, list)
    assert "trainwright.run.train" in loaded
    behind = {"trainwright.report", "trainwright.cli.render"}
    assert not {"torch", "rich", "scipy", "sklearn", "lightgbm", *behind} & set(loaded)


OTHER_KINDS = (
    "checkpoint.copies",
    "contract.sections.data.chats",
    "contract.sections.data.images",
    "contract.sections.data.pairs",
    "contract.sections.data.series",
    "contract.sections.data.text_pairs",
    "contract.sections.data.tokens",
    "data.encoders.pixel_statistics",
    "data.encoders.vocabulary",
    "data.images",
    "data.modalities.image_modality",
    "data.modalities.token_modality",
    "data.text",
    "data.pairs",
    "data.text_pairs",
    "data.quality.actions",
    "data.series",
    "data.sampling.build_sampler",
    "data.sources.delta",
    "data.sources.hf_dataset",
    "data.sources.remote_tables",
    "data.sources.sql",
    "data.split.fold_split",
    "evaluation.baselines.linear_matching",
    "evaluation.metrics.retrieval",
    "evaluation.experiments.run_experiments",
    "model.build_network",
    "planner.compute_trials",
    "planner.kinds.image_planner",
    "planner.kinds.token_planner",
    "planner.micro_batch_memory",
    "run.after",
    "run.compose",
    "run.extend.reopen",
    "run.plan_budget",
    "run.script",
    "run.trial",
)
"""What trees of a table, without a budget, copies or findings to try, have no use for."""

MOST_MODULES = 231
"""Of the package beside its folders, in a training of boosted trees whose data is examined for the
first time. What a family of models or a kind of data adds is imported when a contract asks for
it."""


def is_there(name: str) -> bool:
    return is_folder(name) or (PACKAGE / f"{name.replace('.', '/')}.py").is_file()


def is_folder(name: str) -> bool:
    return (PACKAGE / name.replace(".", "/")).is_dir()


def test_what_a_table_has_no_use_for_is_there() -> None:
    assert [name for name in OTHER_KINDS if not is_there(name)] == []


def test_a_table_waits_for_no_other_kind_of_data_or_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRAINWRIGHT_CACHE", str(tmp_path / "kept"))
    contract = str(write_project(tmp_path))
    words = ["trainwright", "train", contract, "--runs", str(tmp_path / "runs")]
    program = LOADED.replace("{statement}", "from trainwright.cli.main import main; main()")
    program = program.replace("(0, None)", "(0, 3, None)").replace('if "." not in name', "")
    loaded = last_line(program, words)
    assert isinstance(loaded, list)
    ours = {name.removeprefix("trainwright.") for name in loaded if name.startswith("trainwright.")}
    assert "run.train" in ours
    assert not [
        name for name in ours for other in OTHER_KINDS if f"{name}.".startswith(f"{other}.")
    ]
    families = {kind for kind in sections() if f"model.{kind}" in ours}
    # The linear model is a baseline.
    assert families == {"boosting", "linear"}
    homes = {section.__module__.removeprefix("trainwright.") for section in sections().values()}
    assert homes & ours == {"contract.sections.model.trees", "contract.sections.model.linear"}
    assert len([name for name in ours if not is_folder(name)]) <= MOST_MODULES
    assert not OTHER_LIBRARIES & set(loaded)


def test_numbers_are_scaled_for_a_network_without_scipy() -> None:
    """Importing it takes longer than all else that a table needs before its first step."""
    statement = (
        "import numpy as np; "
        "from trainwright.data.encoders.scaling import NumberRows, fit_numbers; "
        "values = np.arange(20.0)[:, None]; "
        "fit_numbers(NumberRows.of(values), ['quantile'], ['median']).transform(values)"
    )
    loaded = last_line(LOADED.replace("{statement}", statement), [""])
    assert isinstance(loaded, list)
    assert not {"torch", "sklearn", "scipy"} & set(loaded)


def test_importing_the_package_waits_for_nothing_heavy() -> None:
    loaded = last_line(LOADED.replace("{statement}", "import trainwright"), [""])
    assert isinstance(loaded, list)
    assert "trainwright" in loaded
    assert not set(HEAVY) & set(loaded)


FORKED = """
import sys, threading

def at_fork(event, _):
    if event == "os.fork":
        loaded = [name for name in ("torch", "lightgbm", "sklearn") if name in sys.modules]
        print("fork", loaded, threading.active_count(), flush=True)

sys.addaudithook(at_fork)
sys.argv = ["trainwright", "train", "small.yaml", "--restart", "1", "--set", "model.max_trees=2"]
from trainwright.cli.main import main
main()
"""


def test_a_run_that_may_be_restarted_is_forked_before_a_library_is_loaded(tmp_path: Path) -> None:
    """Torch hangs in a process that is forked after it has worked on several threads."""
    write_project(tmp_path)
    asked = [sys.executable, "-c", FORKED]
    ran = subprocess.run(
        asked, cwd=tmp_path, capture_output=True, text=True, timeout=within(60), check=False
    )
    assert ran.returncode in (0, 3), ran.stderr
    assert [line for line in ran.stdout.splitlines() if line.startswith("fork")] == ["fork [] 1"]
