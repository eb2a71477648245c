"""The public surface: what `import trainwright` promises. A name goes in or out on purpose."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import pytest

import trainwright
from trainwright.core import errors

PUBLIC = frozenset(
    {
        "AlsoAfterSplit",
        "At",
        "Autocast",
        "AverageUpdate",
        "BackwardOutOfMemory",
        "Batch",
        "BinaryCrossEntropyLoss",
        "BlockSampler",
        "BucketSampler",
        "ByOp",
        "RollbackBackoff",
        "ChatData",
        "Checkpoints",
        "Classifier",
        "ContractMistake",
        "CrossEntropyLoss",
        "CurriculumSampler",
        "DamagedFile",
        "DataChanged",
        "DataMistake",
        "DeadUnits",
        "Drop",
        "HealthMonitor",
        "Ended",
        "SWA",
        "SWAState",
        "EvaluatedState",
        "Evaluating",
        "Every",
        "EMA",
        "EMAState",
        "Feed",
        "FocalLoss",
        "Full",
        "GradientPenalty",
        "GroupSampler",
        "Guard",
        "group_parameters",
        "harness_model",
        "Halt",
        "HaltOnNonFinite",
        "HuberLoss",
        "InBlocks",
        "FittedRun",
        "Interrupted",
        "Job",
        "Keep",
        "LayerNorms",
        "LearningRate",
        "Loaded",
        "LoaderFeed",
        "LossSum",
        "MemoryGuard",
        "MissingExtra",
        "Mistake",
        "ModuleState",
        "NO_TARGET",
        "NoValidCheckpoint",
        "NoiseScale",
        "NonFinite",
        "BatchNormRecalibration",
        "NotAvailable",
        "OffloadedOptimizer",
        "Offloading",
        "OptimizerState",
        "OptimizerStep",
        "OwnMeans",
        "OwnSignals",
        "Pace",
        "Padded",
        "PaddedShapes",
        "Patience",
        "PeerLost",
        "PolicyGuard",
        "AdaptiveEvalBatch",
        "Problem",
        "Progress",
        "RandomState",
        "Regressor",
        "RollBack",
        "RowFile",
        "RunLocked",
        "ShortWindows",
        "SignalRecorder",
        "SilentUnits",
        "Snapshot",
        "SplitOnOutOfMemory",
        "Stages",
        "StepBatches",
        "StepKept",
        "StepLimit",
        "StepOutcome",
        "StepProbes",
        "StopReason",
        "StorageFailed",
        "Supervised",
        "SWASchedule",
        "Throughput",
        "TimeLimit",
        "TokenData",
        "TrainedRun",
        "TrainwrightError",
        "TunedStudy",
        "Trials",
        "Trimmed",
        "Validated",
        "Way",
        "WeightedSampler",
        "WindowFile",
        "Windows",
        "Workers",
        "cosine_with_warmup",
        "fit",
        "info_nce",
        "judge",
        "load",
        "matrix_products",
        "nt_xent",
        "open_objects",
        "padded_targets",
        "parquet_batches",
        "prepare",
        "product_error",
        "read_contract",
        "read_own_signals",
        "read_signals",
        "read_source",
        "read_tokens",
        "read_windows",
        "recompute",
        "symmetric_info_nce",
        "train",
        "tune",
        "triplet",
        "write_row_file",
        "write_token_file",
    }
)


def test_the_public_names_are_these() -> None:
    assert frozenset(trainwright.__all__) - {"__version__"} == PUBLIC


def test_type_checkers_see_the_names_that_are_imported_when_used() -> None:
    tree = ast.parse(Path(trainwright.__file__).read_text())
    (checked,) = (
        node for node in tree.body if isinstance(node, ast.If) and isinstance(node.test, ast.Name)
    )
    seen = {}
    for one in checked.body:
        assert isinstance(one, ast.ImportFrom)
        for alias in one.names:
            assert alias.asname == alias.name, "only an alias is a public name under mypy --strict"
            seen[alias.name] = one.module
    assert seen == {
        name: f"trainwright.{home}" for name, home in vars(trainwright)["_HOMES"].items()
    }


def test_every_error_that_is_raised_on_purpose_can_be_caught_by_name() -> None:
    tree = [trainwright.TrainwrightError]
    for one in tree:
        tree += [kind for kind in one.__subclasses__() if kind.__module__ == errors.__name__]
    assert {one.__name__ for one in tree} <= PUBLIC
    assert len(tree) > 10


@pytest.mark.torch
@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_a_public_name_is_there_and_says_what_it_is(name: str) -> None:
    pytest.importorskip("torch")
    assert inspect.getdoc(getattr(trainwright, name))


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        trainwright.no_such_name  # noqa: B018
