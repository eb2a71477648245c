"""The public surface: what `import trainwright` promises. A name goes in or out on purpose."""

from __future__ import annotations

import inspect

import pytest

import trainwright

PUBLIC = frozenset(
    {
        "AlsoAfterSplit",
        "At",
        "Autocast",
        "AveragedStep",
        "Batch",
        "BinaryCrossEntropyLoss",
        "BlockDraws",
        "BucketDraws",
        "ByOp",
        "Caution",
        "Checkpoints",
        "CrossEntropyLoss",
        "CurriculumDraws",
        "DeadUnits",
        "Drop",
        "EarlyTrouble",
        "EqualMean",
        "EqualMeanState",
        "Evaluating",
        "Every",
        "Feed",
        "FocalLoss",
        "Full",
        "GradientPenalty",
        "GroupDraws",
        "Guard",
        "Halt",
        "HuberLoss",
        "InBlocks",
        "Interrupted",
        "Job",
        "Keep",
        "LayerNorms",
        "LearningRate",
        "Loaded",
        "LoaderFeed",
        "LossSum",
        "MeasuredStep",
        "MemoryGuard",
        "Mistake",
        "ModuleState",
        "NO_TARGET",
        "NoiseScale",
        "NormStatistics",
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
        "PolicyGuard",
        "Portions",
        "Progress",
        "RandomState",
        "RollBack",
        "RowFile",
        "ShortWindows",
        "SignalRecorder",
        "SignalledStep",
        "SilentUnits",
        "Snapshot",
        "SplittingStep",
        "Stages",
        "StepBatches",
        "StepKept",
        "StepLimit",
        "StepOutcome",
        "Supervised",
        "Taking",
        "Throughput",
        "TokenData",
        "TrainwrightError",
        "Trials",
        "Trimmed",
        "Way",
        "WeightedDraws",
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
        "triplet",
        "write_row_file",
        "write_token_file",
    }
)


def test_the_public_names_are_these() -> None:
    assert frozenset(trainwright.__all__) - {"__version__"} == PUBLIC


@pytest.mark.torch
@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_a_public_name_is_there_and_says_what_it_is(name: str) -> None:
    pytest.importorskip("torch")
    assert inspect.getdoc(getattr(trainwright, name))


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        trainwright.no_such_name  # noqa: B018
