"""Trainwright trains models from a written contract, and proves what they reach."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainwright.api import judge, load, train
    from trainwright.checkpoint.averaging import EqualMeanState
    from trainwright.checkpoint.module import ModuleState
    from trainwright.checkpoint.objects import open_objects
    from trainwright.checkpoint.optimizer import OptimizerState
    from trainwright.checkpoint.random_state import RandomState
    from trainwright.checkpoint.state import Snapshot
    from trainwright.checkpoint.store import Checkpoints, Loaded
    from trainwright.contract.guard import Guard
    from trainwright.contract.memory import ByOp
    from trainwright.contract.reading import read_contract
    from trainwright.contract.tokens import TokenData
    from trainwright.core.errors import Interrupted, Mistake, TrainwrightError
    from trainwright.core.progress import Progress
    from trainwright.data.block_draws import BlockDraws
    from trainwright.data.buckets import BucketDraws
    from trainwright.data.draws import CurriculumDraws, GroupDraws, Pace, WeightedDraws
    from trainwright.data.feed import Feed, StepBatches
    from trainwright.data.padded_store import NO_TARGET, Trimmed, padded_targets
    from trainwright.data.padding import PaddedShapes
    from trainwright.data.ramps import Stages
    from trainwright.data.row_file import RowFile, parquet_batches, write_row_file
    from trainwright.data.short_windows import ShortWindows
    from trainwright.data.sources import read_source
    from trainwright.data.store import Batch
    from trainwright.data.token_file import write_token_file
    from trainwright.data.tokens import read_tokens
    from trainwright.data.workers import Workers
    from trainwright.engine.averaging import AveragedStep
    from trainwright.engine.caution import Caution
    from trainwright.engine.gauges import Throughput
    from trainwright.engine.guard import Drop, Halt, Keep, PolicyGuard, RollBack
    from trainwright.engine.inspection import SilentUnits
    from trainwright.engine.job import At, Every, Job
    from trainwright.engine.kernels import matrix_products
    from trainwright.engine.layers import LayerNorms
    from trainwright.engine.loader_feed import LoaderFeed
    from trainwright.engine.measuring import MeasuredStep
    from trainwright.engine.noise_scale import NoiseScale
    from trainwright.engine.offloading import Offloading
    from trainwright.engine.out_of_memory import AlsoAfterSplit, MemoryGuard, SplittingStep
    from trainwright.engine.own_signals import OwnMeans, OwnSignals, SignalledStep
    from trainwright.engine.portions import Portions
    from trainwright.engine.precision import Autocast, Full
    from trainwright.engine.recomputing import recompute
    from trainwright.engine.statistics import NormStatistics
    from trainwright.engine.step import OptimizerStep
    from trainwright.engine.stop import Patience, StepLimit
    from trainwright.engine.trial import Trials, Way, product_error
    from trainwright.engine.trouble import EarlyTrouble
    from trainwright.engine.units import DeadUnits
    from trainwright.engine.windows import Windows
    from trainwright.model.blocks import InBlocks
    from trainwright.objective.classes import BinaryCrossEntropyLoss, CrossEntropyLoss, FocalLoss
    from trainwright.objective.contrastive import info_nce, nt_xent, symmetric_info_nce, triplet
    from trainwright.objective.losses import LossSum, Padded, Supervised
    from trainwright.objective.numbers import HuberLoss
    from trainwright.objective.penalty import GradientPenalty
    from trainwright.optim.equal_mean import EqualMean
    from trainwright.optim.knob import LearningRate
    from trainwright.optim.offloading import OffloadedOptimizer
    from trainwright.optim.schedule import cosine_with_warmup
    from trainwright.optim.taking import Taking
    from trainwright.optim.weights import Evaluating
    from trainwright.run.script.fit_job import fit
    from trainwright.run.script.judge_model import prepare
    from trainwright.tracking.events import StepKept, StepOutcome
    from trainwright.tracking.signals import SignalRecorder, read_own_signals, read_signals
    from trainwright.tracking.windows import WindowFile, read_windows

__version__ = "0.1.0"

__all__ = [
    "NO_TARGET",
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
    "__version__",
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
]

if not TYPE_CHECKING:
    # Each name is imported when it is first used: the command's help must not wait for torch.
    _LIGHT = {
        "api": "judge load train",
        "contract.guard": "Guard",
        "contract.memory": "ByOp",
        "contract.reading": "read_contract",
        "contract.tokens": "TokenData",
        "core.errors": "Interrupted Mistake TrainwrightError",
        "core.progress": "Progress",
        "data.block_draws": "BlockDraws",
        "data.buckets": "BucketDraws",
        "data.draws": "CurriculumDraws GroupDraws Pace WeightedDraws",
        "data.padding": "PaddedShapes",
        "data.ramps": "Stages",
        "data.sources": "read_source",
        "data.token_file": "write_token_file",
        "data.tokens": "read_tokens",
        "run.script.judge_model": "prepare",
        "tracking.events": "StepKept StepOutcome",
        "tracking.signals": "SignalRecorder read_own_signals read_signals",
        "tracking.windows": "WindowFile read_windows",
    }
    _TORCH = {
        "checkpoint.averaging": "EqualMeanState",
        "checkpoint.module": "ModuleState",
        "checkpoint.objects": "open_objects",
        "checkpoint.optimizer": "OptimizerState",
        "checkpoint.random_state": "RandomState",
        "checkpoint.state": "Snapshot",
        "checkpoint.store": "Checkpoints Loaded",
        "data.feed": "Feed StepBatches",
        "data.padded_store": "NO_TARGET Trimmed padded_targets",
        "data.row_file": "RowFile parquet_batches write_row_file",
        "data.short_windows": "ShortWindows",
        "data.store": "Batch",
        "data.workers": "Workers",
        "engine.averaging": "AveragedStep",
        "engine.caution": "Caution",
        "engine.gauges": "Throughput",
        "engine.guard": "Drop Halt Keep PolicyGuard RollBack",
        "engine.inspection": "SilentUnits",
        "engine.job": "At Every Job",
        "engine.kernels": "matrix_products",
        "engine.layers": "LayerNorms",
        "engine.loader_feed": "LoaderFeed",
        "engine.measuring": "MeasuredStep",
        "engine.noise_scale": "NoiseScale",
        "engine.offloading": "Offloading",
        "engine.out_of_memory": "AlsoAfterSplit MemoryGuard SplittingStep",
        "engine.own_signals": "OwnMeans OwnSignals SignalledStep",
        "engine.portions": "Portions",
        "engine.precision": "Autocast Full",
        "engine.recomputing": "recompute",
        "engine.statistics": "NormStatistics",
        "engine.step": "OptimizerStep",
        "engine.stop": "Patience StepLimit",
        "engine.trial": "Trials Way product_error",
        "engine.trouble": "EarlyTrouble",
        "engine.units": "DeadUnits",
        "engine.windows": "Windows",
        "model.blocks": "InBlocks",
        "objective.classes": "BinaryCrossEntropyLoss CrossEntropyLoss FocalLoss",
        "objective.contrastive": "info_nce nt_xent symmetric_info_nce triplet",
        "objective.losses": "LossSum Padded Supervised",
        "objective.numbers": "HuberLoss",
        "objective.penalty": "GradientPenalty",
        "optim.equal_mean": "EqualMean",
        "optim.knob": "LearningRate",
        "optim.offloading": "OffloadedOptimizer",
        "optim.schedule": "cosine_with_warmup",
        "optim.taking": "Taking",
        "optim.weights": "Evaluating",
        "run.script.fit_job": "fit",
    }
    _HOMES = {
        name: home for names in (_LIGHT, _TORCH) for home in names for name in names[home].split()
    }

    def __getattr__(name: str) -> object:
        from importlib import import_module

        home = _HOMES.get(name)
        if home is None:
            raise AttributeError(f"module 'trainwright' has no attribute {name!r}")
        if home in _TORCH:
            from trainwright.core.extras import need_torch

            need_torch("", f"trainwright.{name}")
        value = globals()[name] = getattr(import_module(f"trainwright.{home}"), name)
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
