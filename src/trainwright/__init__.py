"""Trainwright trains models from a written contract, and proves what they reach."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainwright.api import judge, load, train
    from trainwright.checkpoint.module import ModuleState
    from trainwright.checkpoint.optimizer import OptimizerState
    from trainwright.checkpoint.random_state import RandomState
    from trainwright.checkpoint.store import Checkpoints
    from trainwright.contract.reading import read_contract
    from trainwright.core.errors import Interrupted, Mistake, TrainwrightError
    from trainwright.data.block_draws import BlockDraws
    from trainwright.data.draws import CurriculumDraws, GroupDraws, Pace, WeightedDraws
    from trainwright.data.feed import Feed
    from trainwright.data.workers import Workers
    from trainwright.engine.job import Every, Job
    from trainwright.engine.loader_feed import LoaderFeed
    from trainwright.engine.step import OptimizerStep
    from trainwright.engine.stop import Patience, StepLimit
    from trainwright.objective.losses import LossSum
    from trainwright.optim.knob import LearningRate
    from trainwright.optim.schedule import cosine_with_warmup
    from trainwright.run.script.fit_job import fit
    from trainwright.run.script.judge_model import prepare

__version__ = "0.1.0"

__all__ = [
    "BlockDraws",
    "Checkpoints",
    "CurriculumDraws",
    "Every",
    "Feed",
    "GroupDraws",
    "Interrupted",
    "Job",
    "LearningRate",
    "LoaderFeed",
    "LossSum",
    "Mistake",
    "ModuleState",
    "OptimizerState",
    "OptimizerStep",
    "Pace",
    "Patience",
    "RandomState",
    "StepLimit",
    "TrainwrightError",
    "WeightedDraws",
    "Workers",
    "__version__",
    "cosine_with_warmup",
    "fit",
    "judge",
    "load",
    "prepare",
    "read_contract",
    "train",
]

if not TYPE_CHECKING:
    # Each name is imported when it is first used: the command's help must not wait for torch.
    _LIGHT_HOMES = {
        "BlockDraws": "data.block_draws",
        "CurriculumDraws": "data.draws",
        "GroupDraws": "data.draws",
        "Interrupted": "core.errors",
        "Mistake": "core.errors",
        "Pace": "data.draws",
        "TrainwrightError": "core.errors",
        "WeightedDraws": "data.draws",
        "judge": "api",
        "load": "api",
        "prepare": "run.script.judge_model",
        "read_contract": "contract.reading",
        "train": "api",
    }
    _TORCH_HOMES = {
        "Checkpoints": "checkpoint.store",
        "Every": "engine.job",
        "Feed": "data.feed",
        "Job": "engine.job",
        "LearningRate": "optim.knob",
        "LoaderFeed": "engine.loader_feed",
        "LossSum": "objective.losses",
        "ModuleState": "checkpoint.module",
        "OptimizerState": "checkpoint.optimizer",
        "OptimizerStep": "engine.step",
        "Patience": "engine.stop",
        "RandomState": "checkpoint.random_state",
        "StepLimit": "engine.stop",
        "Workers": "data.workers",
        "cosine_with_warmup": "optim.schedule",
        "fit": "run.script.fit_job",
    }

    def __getattr__(name: str) -> object:
        from importlib import import_module

        if name in _TORCH_HOMES:
            from trainwright.core.extras import need_torch

            need_torch("", f"trainwright.{name}")
        home = _LIGHT_HOMES.get(name) or _TORCH_HOMES.get(name)
        if home is None:
            raise AttributeError(f"module 'trainwright' has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(f"trainwright.{home}"), name)
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
