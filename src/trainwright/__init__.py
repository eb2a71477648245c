"""Trainwright trains models from a written contract, and proves what they reach."""

from __future__ import annotations

from typing import TYPE_CHECKING

# Type checkers treat an alias as a public name.
if TYPE_CHECKING:
    from trainwright.api import FittedRun as FittedRun
    from trainwright.api import TrainedRun as TrainedRun
    from trainwright.api import fit as fit
    from trainwright.api import judge as judge
    from trainwright.api import load as load
    from trainwright.api import train as train
    from trainwright.checkpoint.state import Snapshot as Snapshot
    from trainwright.checkpoint.states.average_state import EMAState as EMAState
    from trainwright.checkpoint.states.average_state import SWAState as SWAState
    from trainwright.checkpoint.states.eval_weights_state import EvaluatedState as EvaluatedState
    from trainwright.checkpoint.states.module_state import ModuleState as ModuleState
    from trainwright.checkpoint.states.optimizer_state import OptimizerState as OptimizerState
    from trainwright.checkpoint.states.random_state import RandomState as RandomState
    from trainwright.checkpoint.storages.object_storage import open_objects as open_objects
    from trainwright.checkpoint.store import Checkpoints as Checkpoints
    from trainwright.checkpoint.store import Loaded as Loaded
    from trainwright.contract.reading.read_contract import read_contract as read_contract
    from trainwright.contract.sections.data.chats import ChatData as ChatData
    from trainwright.contract.sections.data.tokens import TokenData as TokenData
    from trainwright.contract.sections.training.memory import ByOp as ByOp
    from trainwright.contract.sections.training.training import Guard as Guard
    from trainwright.core.errors import ContractMistake as ContractMistake
    from trainwright.core.errors import DamagedFile as DamagedFile
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
    from trainwright.data.loading.batch import Batch as Batch
    from trainwright.data.loading.document_dataset import NO_TARGET as NO_TARGET
    from trainwright.data.loading.document_dataset import ShortWindows as ShortWindows
    from trainwright.data.loading.document_dataset import Trimmed as Trimmed
    from trainwright.data.loading.document_dataset import padded_targets as padded_targets
    from trainwright.data.loading.feed import Feed as Feed
    from trainwright.data.loading.feed import StepBatches as StepBatches
    from trainwright.data.loading.row_file import RowFile as RowFile
    from trainwright.data.loading.row_file import parquet_batches as parquet_batches
    from trainwright.data.loading.row_file import write_row_file as write_row_file
    from trainwright.data.loading.worker_pool import Workers as Workers
    from trainwright.data.sampling.length_buckets import BucketSampler as BucketSampler
    from trainwright.data.sampling.samplers import BlockSampler as BlockSampler
    from trainwright.data.sampling.samplers import CurriculumSampler as CurriculumSampler
    from trainwright.data.sampling.samplers import GroupSampler as GroupSampler
    from trainwright.data.sampling.samplers import Pace as Pace
    from trainwright.data.sampling.samplers import WeightedSampler as WeightedSampler
    from trainwright.data.sampling.step_ramps import Stages as Stages
    from trainwright.data.sources.find_source import read_source as read_source
    from trainwright.data.text.padding import PaddedShapes as PaddedShapes
    from trainwright.data.text.prepare_text import read_tokens as read_tokens
    from trainwright.data.text.token_file import write_token_file as write_token_file
    from trainwright.engine.bn_recalibration import BatchNormRecalibration as BatchNormRecalibration
    from trainwright.engine.execution.activation_checkpointing import recompute as recompute
    from trainwright.engine.execution.activation_offload import Offloading as Offloading
    from trainwright.engine.execution.adaptive_eval_batch import (
        AdaptiveEvalBatch as AdaptiveEvalBatch,
    )
    from trainwright.engine.execution.kernel_settings import matrix_products as matrix_products
    from trainwright.engine.execution.oom import BackwardOutOfMemory as BackwardOutOfMemory
    from trainwright.engine.execution.precision import Autocast as Autocast
    from trainwright.engine.execution.precision import Full as Full
    from trainwright.engine.execution.step_benchmark import Trials as Trials
    from trainwright.engine.execution.step_benchmark import Way as Way
    from trainwright.engine.execution.step_benchmark import product_error as product_error
    from trainwright.engine.guards.rollback import RollbackBackoff as RollbackBackoff
    from trainwright.engine.guards.step_guard import Drop as Drop
    from trainwright.engine.guards.step_guard import Halt as Halt
    from trainwright.engine.guards.step_guard import HaltOnNonFinite as HaltOnNonFinite
    from trainwright.engine.guards.step_guard import Keep as Keep
    from trainwright.engine.guards.step_guard import PolicyGuard as PolicyGuard
    from trainwright.engine.guards.step_guard import RollBack as RollBack
    from trainwright.engine.health.health_monitor import HealthMonitor as HealthMonitor
    from trainwright.engine.job import At as At
    from trainwright.engine.job import Every as Every
    from trainwright.engine.job import Job as Job
    from trainwright.engine.loader_feed import LoaderFeed as LoaderFeed
    from trainwright.engine.signals.custom_signals import OwnMeans as OwnMeans
    from trainwright.engine.signals.custom_signals import OwnSignals as OwnSignals
    from trainwright.engine.signals.dead_units import DeadUnits as DeadUnits
    from trainwright.engine.signals.network_inspection import LayerNorms as LayerNorms
    from trainwright.engine.signals.network_inspection import SilentUnits as SilentUnits
    from trainwright.engine.signals.network_inspection import StepProbes as StepProbes
    from trainwright.engine.signals.noise_scale import NoiseScale as NoiseScale
    from trainwright.engine.signals.telemetry import Windows as Windows
    from trainwright.engine.signals.throughput import Throughput as Throughput
    from trainwright.engine.stopping.stop_rules import Patience as Patience
    from trainwright.engine.stopping.stop_rules import StepLimit as StepLimit
    from trainwright.engine.stopping.stop_rules import StopReason as StopReason
    from trainwright.engine.stopping.stop_rules import TimeLimit as TimeLimit
    from trainwright.engine.update.average_update import AverageUpdate as AverageUpdate
    from trainwright.engine.update.oom_policy import AlsoAfterSplit as AlsoAfterSplit
    from trainwright.engine.update.oom_policy import MemoryGuard as MemoryGuard
    from trainwright.engine.update.oom_policy import SplitOnOutOfMemory as SplitOnOutOfMemory
    from trainwright.engine.update.step import OptimizerStep as OptimizerStep
    from trainwright.estimators import Classifier as Classifier
    from trainwright.estimators import Regressor as Regressor
    from trainwright.model.model_call import InBlocks as InBlocks
    from trainwright.objective.classification_losses import (
        BinaryCrossEntropyLoss as BinaryCrossEntropyLoss,
    )
    from trainwright.objective.classification_losses import CrossEntropyLoss as CrossEntropyLoss
    from trainwright.objective.classification_losses import FocalLoss as FocalLoss
    from trainwright.objective.contrastive import info_nce as info_nce
    from trainwright.objective.contrastive import nt_xent as nt_xent
    from trainwright.objective.contrastive import symmetric_info_nce as symmetric_info_nce
    from trainwright.objective.contrastive import triplet as triplet
    from trainwright.objective.gradient_penalty import GradientPenalty as GradientPenalty
    from trainwright.objective.losses import LossSum as LossSum
    from trainwright.objective.losses import Padded as Padded
    from trainwright.objective.losses import Supervised as Supervised
    from trainwright.objective.regression_losses import HuberLoss as HuberLoss
    from trainwright.optim.ema import EMA as EMA
    from trainwright.optim.eval_weights import Evaluating as Evaluating
    from trainwright.optim.lr_schedule import cosine_with_warmup as cosine_with_warmup
    from trainwright.optim.parameter_groups import group_parameters as group_parameters
    from trainwright.optim.schedule import LearningRate as LearningRate
    from trainwright.optim.state_offload import OffloadedOptimizer as OffloadedOptimizer
    from trainwright.optim.swa import SWA as SWA
    from trainwright.optim.swa_schedule import SWASchedule as SWASchedule
    from trainwright.run.after.evaluate_harness import harness_model as harness_model
    from trainwright.run.prepared_data import prepare as prepare
    from trainwright.tracking.events import Ended as Ended
    from trainwright.tracking.events import StepKept as StepKept
    from trainwright.tracking.events import StepOutcome as StepOutcome
    from trainwright.tracking.events import Validated as Validated
    from trainwright.tracking.signals import SignalRecorder as SignalRecorder
    from trainwright.tracking.signals import read_own_signals as read_own_signals
    from trainwright.tracking.signals import read_signals as read_signals
    from trainwright.tracking.telemetry_file import WindowFile as WindowFile
    from trainwright.tracking.telemetry_file import read_windows as read_windows
    from trainwright.tuned_study import TunedStudy as TunedStudy
    from trainwright.tuned_study import tune as tune

__version__ = "0.1.0"

if not TYPE_CHECKING:
    import sys
    from types import ModuleType

    # Names are imported on first use: the command's help must not wait for torch.
    _LIGHT = {
        "api": "FittedRun TrainedRun fit judge load train",
        "contract.sections.training.training": "Guard",
        "contract.sections.training.memory": "ByOp",
        "contract.reading.read_contract": "read_contract",
        "contract.sections.data.chats": "ChatData",
        "contract.sections.data.tokens": "TokenData",
        "core.errors": "ContractMistake DamagedFile DataChanged DataMistake Interrupted "
        "MissingExtra Mistake NoValidCheckpoint NonFinite NotAvailable PeerLost Problem RunLocked "
        "StorageFailed TrainwrightError",
        "core.progress": "Progress",
        "estimators": "Classifier Regressor",
        "data.sampling.samplers": "BlockSampler CurriculumSampler GroupSampler Pace "
        "WeightedSampler",
        "data.sampling.length_buckets": "BucketSampler",
        "data.text.padding": "PaddedShapes",
        "data.sampling.step_ramps": "Stages",
        "data.sources.find_source": "read_source",
        "data.text.token_file": "write_token_file",
        "data.text.prepare_text": "read_tokens",
        "run.prepared_data": "prepare",
        "tracking.events": "Ended StepKept StepOutcome Validated",
        "tracking.signals": "SignalRecorder read_own_signals read_signals",
        "tracking.telemetry_file": "WindowFile read_windows",
        "tuned_study": "TunedStudy tune",
    }
    _TORCH = {
        "checkpoint.states.average_state": "EMAState SWAState",
        "checkpoint.states.eval_weights_state": "EvaluatedState",
        "checkpoint.states.module_state": "ModuleState",
        "checkpoint.storages.object_storage": "open_objects",
        "checkpoint.states.optimizer_state": "OptimizerState",
        "checkpoint.states.random_state": "RandomState",
        "checkpoint.state": "Snapshot",
        "checkpoint.store": "Checkpoints Loaded",
        "data.loading.feed": "Feed StepBatches",
        "data.loading.document_dataset": "NO_TARGET ShortWindows Trimmed padded_targets",
        "data.loading.row_file": "RowFile parquet_batches write_row_file",
        "data.loading.batch": "Batch",
        "data.loading.worker_pool": "Workers",
        "engine.execution.oom": "BackwardOutOfMemory",
        "engine.update.average_update": "AverageUpdate",
        "engine.guards.rollback": "RollbackBackoff",
        "engine.signals.throughput": "Throughput",
        "engine.guards.step_guard": "Drop Halt HaltOnNonFinite Keep PolicyGuard RollBack",
        "engine.signals.network_inspection": "LayerNorms SilentUnits StepProbes",
        "engine.job": "At Every Job",
        "engine.execution.kernel_settings": "matrix_products",
        "engine.loader_feed": "LoaderFeed",
        "engine.signals.noise_scale": "NoiseScale",
        "engine.execution.activation_offload": "Offloading",
        "engine.update.oom_policy": "AlsoAfterSplit MemoryGuard SplitOnOutOfMemory",
        "engine.signals.custom_signals": "OwnMeans OwnSignals",
        "engine.execution.adaptive_eval_batch": "AdaptiveEvalBatch",
        "engine.execution.precision": "Autocast Full",
        "engine.execution.activation_checkpointing": "recompute",
        "engine.bn_recalibration": "BatchNormRecalibration",
        "engine.update.step": "OptimizerStep",
        "engine.stopping.stop_rules": "Patience StepLimit StopReason TimeLimit",
        "engine.execution.step_benchmark": "Trials Way product_error",
        "engine.health.health_monitor": "HealthMonitor",
        "engine.signals.dead_units": "DeadUnits",
        "engine.signals.telemetry": "Windows",
        "model.model_call": "InBlocks",
        "objective.classification_losses": "BinaryCrossEntropyLoss CrossEntropyLoss FocalLoss",
        "objective.contrastive": "info_nce nt_xent symmetric_info_nce triplet",
        "optim.parameter_groups": "group_parameters",
        "objective.losses": "LossSum Padded Supervised",
        "objective.regression_losses": "HuberLoss",
        "objective.gradient_penalty": "GradientPenalty",
        "optim.ema": "EMA",
        "optim.swa": "SWA",
        "optim.schedule": "LearningRate",
        "optim.state_offload": "OffloadedOptimizer",
        "optim.lr_schedule": "cosine_with_warmup",
        "optim.swa_schedule": "SWASchedule",
        "optim.eval_weights": "Evaluating",
        "run.after.evaluate_harness": "harness_model",
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
            from trainwright.core.lazy_imports import need_torch

            need_torch("", f"trainwright.{name}")
        value = globals()[name] = getattr(import_module(f"trainwright.{home}"), name)
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})

    class _Facade(ModuleType):
        """Importing a stage does not hide the public function of its name: `tune`."""

        def __setattr__(self, name: str, value: object) -> None:
            if not (name in _HOMES and isinstance(value, ModuleType)):
                super().__setattr__(name, value)

    sys.modules[__name__].__class__ = _Facade
