"""Trainwright trains models from a written contract, and proves what they reach."""

from __future__ import annotations

from typing import TYPE_CHECKING

# An alias is what a type checker takes for a public name.
if TYPE_CHECKING:
    from trainwright.api import judge as judge
    from trainwright.api import load as load
    from trainwright.api import train as train
    from trainwright.checkpoint.averaging import EqualMeanState as EqualMeanState
    from trainwright.checkpoint.averaging import ExponentialMeanState as ExponentialMeanState
    from trainwright.checkpoint.evaluated import EvaluatedState as EvaluatedState
    from trainwright.checkpoint.module import ModuleState as ModuleState
    from trainwright.checkpoint.objects import open_objects as open_objects
    from trainwright.checkpoint.optimizer import OptimizerState as OptimizerState
    from trainwright.checkpoint.random_state import RandomState as RandomState
    from trainwright.checkpoint.state import Snapshot as Snapshot
    from trainwright.checkpoint.store import Checkpoints as Checkpoints
    from trainwright.checkpoint.store import Loaded as Loaded
    from trainwright.contract.guard import Guard as Guard
    from trainwright.contract.memory import ByOp as ByOp
    from trainwright.contract.reading import read_contract as read_contract
    from trainwright.contract.tokens import TokenData as TokenData
    from trainwright.core.errors import ContractMistake as ContractMistake
    from trainwright.core.errors import DataChanged as DataChanged
    from trainwright.core.errors import DataMistake as DataMistake
    from trainwright.core.errors import Interrupted as Interrupted
    from trainwright.core.errors import MissingExtra as MissingExtra
    from trainwright.core.errors import Mistake as Mistake
    from trainwright.core.errors import NonFinite as NonFinite
    from trainwright.core.errors import NotAvailable as NotAvailable
    from trainwright.core.errors import NoValidCheckpoint as NoValidCheckpoint
    from trainwright.core.errors import PeerLost as PeerLost
    from trainwright.core.errors import Problem as Problem
    from trainwright.core.errors import RunLocked as RunLocked
    from trainwright.core.errors import StorageFailed as StorageFailed
    from trainwright.core.errors import TrainwrightError as TrainwrightError
    from trainwright.core.progress import Progress as Progress
    from trainwright.data.loading.dataset import Batch as Batch
    from trainwright.data.loading.feed import Feed as Feed
    from trainwright.data.loading.feed import StepBatches as StepBatches
    from trainwright.data.loading.length_ramp import ShortWindows as ShortWindows
    from trainwright.data.loading.padded_dataset import NO_TARGET as NO_TARGET
    from trainwright.data.loading.padded_dataset import Trimmed as Trimmed
    from trainwright.data.loading.padded_dataset import padded_targets as padded_targets
    from trainwright.data.loading.row_file import RowFile as RowFile
    from trainwright.data.loading.row_file import parquet_batches as parquet_batches
    from trainwright.data.loading.row_file import write_row_file as write_row_file
    from trainwright.data.loading.worker_pool import Workers as Workers
    from trainwright.data.sampling.block_shuffle import BlockDraws as BlockDraws
    from trainwright.data.sampling.length_buckets import BucketDraws as BucketDraws
    from trainwright.data.sampling.samplers import CurriculumDraws as CurriculumDraws
    from trainwright.data.sampling.samplers import GroupDraws as GroupDraws
    from trainwright.data.sampling.samplers import Pace as Pace
    from trainwright.data.sampling.samplers import WeightedDraws as WeightedDraws
    from trainwright.data.sampling.step_ramps import Stages as Stages
    from trainwright.data.sources.data_source import read_source as read_source
    from trainwright.data.text.padding import PaddedShapes as PaddedShapes
    from trainwright.data.text.prepare_text import read_tokens as read_tokens
    from trainwright.data.text.token_file import write_token_file as write_token_file
    from trainwright.engine.allocation import BackwardOutOfMemory as BackwardOutOfMemory
    from trainwright.engine.averaging import AveragedStep as AveragedStep
    from trainwright.engine.caution import Caution as Caution
    from trainwright.engine.gauges import Throughput as Throughput
    from trainwright.engine.guard import Drop as Drop
    from trainwright.engine.guard import Halt as Halt
    from trainwright.engine.guard import HaltOnNonFinite as HaltOnNonFinite
    from trainwright.engine.guard import Keep as Keep
    from trainwright.engine.guard import PolicyGuard as PolicyGuard
    from trainwright.engine.guard import RollBack as RollBack
    from trainwright.engine.inspection import SilentUnits as SilentUnits
    from trainwright.engine.job import At as At
    from trainwright.engine.job import Every as Every
    from trainwright.engine.job import Job as Job
    from trainwright.engine.kernels import matrix_products as matrix_products
    from trainwright.engine.layers import LayerNorms as LayerNorms
    from trainwright.engine.loader_feed import LoaderFeed as LoaderFeed
    from trainwright.engine.measuring import MeasuredStep as MeasuredStep
    from trainwright.engine.noise_scale import NoiseScale as NoiseScale
    from trainwright.engine.offloading import Offloading as Offloading
    from trainwright.engine.out_of_memory import AlsoAfterSplit as AlsoAfterSplit
    from trainwright.engine.out_of_memory import MemoryGuard as MemoryGuard
    from trainwright.engine.out_of_memory import SplittingStep as SplittingStep
    from trainwright.engine.own_signals import OwnMeans as OwnMeans
    from trainwright.engine.own_signals import OwnSignals as OwnSignals
    from trainwright.engine.own_signals import SignalledStep as SignalledStep
    from trainwright.engine.portions import Portions as Portions
    from trainwright.engine.precision import Autocast as Autocast
    from trainwright.engine.precision import Full as Full
    from trainwright.engine.recomputing import recompute as recompute
    from trainwright.engine.statistics import NormStatistics as NormStatistics
    from trainwright.engine.step import OptimizerStep as OptimizerStep
    from trainwright.engine.stop import Patience as Patience
    from trainwright.engine.stop import StepLimit as StepLimit
    from trainwright.engine.stop import StopReason as StopReason
    from trainwright.engine.stop import TimeLimit as TimeLimit
    from trainwright.engine.trial import Trials as Trials
    from trainwright.engine.trial import Way as Way
    from trainwright.engine.trial import product_error as product_error
    from trainwright.engine.trouble import EarlyTrouble as EarlyTrouble
    from trainwright.engine.units import DeadUnits as DeadUnits
    from trainwright.engine.windows import Windows as Windows
    from trainwright.model.blocks import InBlocks as InBlocks
    from trainwright.objective.classes import BinaryCrossEntropyLoss as BinaryCrossEntropyLoss
    from trainwright.objective.classes import CrossEntropyLoss as CrossEntropyLoss
    from trainwright.objective.classes import FocalLoss as FocalLoss
    from trainwright.objective.contrastive import info_nce as info_nce
    from trainwright.objective.contrastive import nt_xent as nt_xent
    from trainwright.objective.contrastive import symmetric_info_nce as symmetric_info_nce
    from trainwright.objective.contrastive import triplet as triplet
    from trainwright.objective.losses import LossSum as LossSum
    from trainwright.objective.losses import Padded as Padded
    from trainwright.objective.losses import Supervised as Supervised
    from trainwright.objective.numbers import HuberLoss as HuberLoss
    from trainwright.objective.penalty import GradientPenalty as GradientPenalty
    from trainwright.optim.averaging import ExponentialMean as ExponentialMean
    from trainwright.optim.equal_mean import EqualMean as EqualMean
    from trainwright.optim.knob import LearningRate as LearningRate
    from trainwright.optim.offloading import OffloadedOptimizer as OffloadedOptimizer
    from trainwright.optim.schedule import cosine_with_warmup as cosine_with_warmup
    from trainwright.optim.taking import Taking as Taking
    from trainwright.optim.weights import Evaluating as Evaluating
    from trainwright.run.script.fit_job import fit as fit
    from trainwright.run.script.judge_model import prepare as prepare
    from trainwright.tracking.events import Ended as Ended
    from trainwright.tracking.events import StepKept as StepKept
    from trainwright.tracking.events import StepOutcome as StepOutcome
    from trainwright.tracking.events import Validated as Validated
    from trainwright.tracking.signals import SignalRecorder as SignalRecorder
    from trainwright.tracking.signals import read_own_signals as read_own_signals
    from trainwright.tracking.signals import read_signals as read_signals
    from trainwright.tracking.windows import WindowFile as WindowFile
    from trainwright.tracking.windows import read_windows as read_windows

__version__ = "0.1.0"

if not TYPE_CHECKING:
    # Each name is imported when it is first used: the command's help must not wait for torch.
    _LIGHT = {
        "api": "judge load train",
        "contract.guard": "Guard",
        "contract.memory": "ByOp",
        "contract.reading": "read_contract",
        "contract.tokens": "TokenData",
        "core.errors": "ContractMistake DataChanged DataMistake Interrupted MissingExtra Mistake "
        "NoValidCheckpoint NonFinite NotAvailable PeerLost Problem RunLocked StorageFailed "
        "TrainwrightError",
        "core.progress": "Progress",
        "data.sampling.block_shuffle": "BlockDraws",
        "data.sampling.length_buckets": "BucketDraws",
        "data.sampling.samplers": "CurriculumDraws GroupDraws Pace WeightedDraws",
        "data.text.padding": "PaddedShapes",
        "data.sampling.step_ramps": "Stages",
        "data.sources.data_source": "read_source",
        "data.text.token_file": "write_token_file",
        "data.text.prepare_text": "read_tokens",
        "run.script.judge_model": "prepare",
        "tracking.events": "Ended StepKept StepOutcome Validated",
        "tracking.signals": "SignalRecorder read_own_signals read_signals",
        "tracking.windows": "WindowFile read_windows",
    }
    _TORCH = {
        "checkpoint.averaging": "EqualMeanState ExponentialMeanState",
        "checkpoint.evaluated": "EvaluatedState",
        "checkpoint.module": "ModuleState",
        "checkpoint.objects": "open_objects",
        "checkpoint.optimizer": "OptimizerState",
        "checkpoint.random_state": "RandomState",
        "checkpoint.state": "Snapshot",
        "checkpoint.store": "Checkpoints Loaded",
        "data.loading.feed": "Feed StepBatches",
        "data.loading.padded_dataset": "NO_TARGET Trimmed padded_targets",
        "data.loading.row_file": "RowFile parquet_batches write_row_file",
        "data.loading.length_ramp": "ShortWindows",
        "data.loading.dataset": "Batch",
        "data.loading.worker_pool": "Workers",
        "engine.allocation": "BackwardOutOfMemory",
        "engine.averaging": "AveragedStep",
        "engine.caution": "Caution",
        "engine.gauges": "Throughput",
        "engine.guard": "Drop Halt HaltOnNonFinite Keep PolicyGuard RollBack",
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
        "engine.stop": "Patience StepLimit StopReason TimeLimit",
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
        "optim.averaging": "ExponentialMean",
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
    __all__ = sorted(("__version__", *_HOMES))

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
