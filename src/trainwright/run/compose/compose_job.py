"""Builds the `Job` of a network run from the plan. Needs torch."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import final

import torch
from torch import nn

from trainwright.checkpoint.begin_elsewhere import Origin, begin_elsewhere
from trainwright.checkpoint.state import Stateful, merge_state
from trainwright.checkpoint.states.eval_weights_state import MODEL, evaluated_part
from trainwright.checkpoint.states.module_state import ModuleState
from trainwright.checkpoint.states.random_state import RandomState, seed_generators
from trainwright.checkpoint.states.stage_state import StageState
from trainwright.checkpoint.store import CheckpointStore, Loaded
from trainwright.contract.document import Contract
from trainwright.contract.sections.metric import METRICS, Direction
from trainwright.contract.sections.model.traits import ModelSection
from trainwright.contract.sections.section import settled
from trainwright.core.errors import Mistake, StorageFailed
from trainwright.core.files import Json
from trainwright.core.progress import StopFlag
from trainwright.data.loading.feed import Feed
from trainwright.data.types import Prepared
from trainwright.distributed.process_group import build_strategy
from trainwright.distributed.strategy import SingleProcess, Staged, Strategy
from trainwright.engine.execution.activation_checkpointing import recompute
from trainwright.engine.execution.adaptive_eval_batch import AdaptiveEvalBatch
from trainwright.engine.execution.numeric_env import numerics_of
from trainwright.engine.execution.precision import PrecisionChoice
from trainwright.engine.fault_injection import with_fault_points
from trainwright.engine.job import Job, Never, NoProbes
from trainwright.engine.save_interval import FirstOf
from trainwright.engine.saving import SaveRequested
from trainwright.engine.shared_by_ranks import SharedCheckpoints, share_validation
from trainwright.engine.stopping.metric_stop_rules import StepRule
from trainwright.engine.stopping.rank_requests import RankRequests
from trainwright.engine.stopping.stop_rules import (
    Patience,
    Reserve,
    StopRequested,
    StopRule,
    TimeLimit,
)
from trainwright.model.families import network_family
from trainwright.model.input_shape import Shape, shape_of
from trainwright.objective.build_objective import build_loss
from trainwright.objective.losses import Objective, TargetLoss
from trainwright.optim.eval_weights import TrainedWeights, Weights
from trainwright.planner.budget_allotment import EndingDelay
from trainwright.planner.plan import Plan
from trainwright.predictor.network_scorer import NetworkScorer
from trainwright.run.compose.compose_checkpoints import SaveParts, build_saving
from trainwright.run.compose.compose_feed import (
    build_feed,
    build_objective,
    class_rows,
    feed_gauges,
    rows_of_data,
    target_unit,
    with_projection,
)
from trainwright.run.compose.compose_memory import ModelParts
from trainwright.run.compose.compose_optimizer import Learning, build_updates
from trainwright.run.compose.compose_step import (
    WINDOW,
    Stepping,
    build_stepping,
    reader,
)
from trainwright.run.compose.compose_stop_rules import (
    build_step_rules,
    build_target,
    name_budget,
)
from trainwright.run.compose.compose_telemetry import Measurable, TelemetryParts, build_measured
from trainwright.run.compose.compose_validation import build_validation
from trainwright.run.compose.schedule_length import Length, length_of, ramped_source
from trainwright.run.folder.exact_resume import with_same_bits
from trainwright.run.run_context import RunContext
from trainwright.tracking.events import Ended, Event, Observer, Observers
from trainwright.tracking.signals import SignalRecorder


@final
@dataclass(frozen=True, slots=True)
class Composed:
    """A job and the parts used after it: the best weights, the scorer and the time limit; and what
    is closed then, the feed and the copying of checkpoints."""

    job: Job
    feed: Feed
    saving: SaveParts
    model: ModuleState
    scorer: NetworkScorer
    weights: Weights
    limit: TimeLimit


@final
@dataclass(frozen=True, slots=True)
class _Learned:
    """A network with its initial weights, and its training task. `outside` are the names of the
    parameters that only the files of a base hold."""

    model: nn.Module
    state: ModuleState
    shape: Shape
    loss: TargetLoss
    objective: Objective
    outside: frozenset[str]


@final
@dataclass(frozen=True, slots=True)
class _Ends:
    """Stop rules other than the run's length, and the time reserved for the end. `by_step` are the
    rules updated at each step."""

    patience: Patience
    limit: TimeLimit
    reserve: Reserve
    target: Sequence[StopRule]
    by_step: Sequence[StepRule]

    def rules(self, length: Length, flag: StopFlag, requests: RankRequests) -> tuple[StopRule, ...]:
        """All stop rules, in order of evaluation."""
        clock, signal = requests.clock(self.limit), requests.signal(StopRequested(flag))
        asked = (self.patience, clock, signal)
        return (*length.limits, *self.target, *self.by_step, *asked)

    @property
    def state(self) -> dict[str, Stateful]:
        """Their state in a checkpoint."""
        return {"patience": self.patience, "clock": self.limit}


def compose(section: ModelSection, plan: Plan, prepared: Prepared, run: RunContext) -> Composed:
    """Build the job of a network run. The initial weights are drawn here, from the contract's
    seed."""
    contract, training = plan.contract, plan.contract.training
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    strategy = build_strategy(contract.distributed, device)
    requests = RankRequests(strategy)
    network = _build(section, contract, prepared, strategy)
    model, objective = network.model, network.objective
    # Workers may send notices once everything is built, not before.
    feed = build_feed(contract, prepared, device, lambda event: tell(event), strategy.share)
    length = length_of(contract, feed)
    ends = _build_ends(plan, length, run.spent.used(run.folder.full_name))
    learning = _learning(section, network, feed)
    map_to_plan = ends.limit.map_to_plan if ends.limit.shortens else None
    updates = build_updates(training, learning, network.state, length, map_to_plan)
    shown = run.screen.progress(length.most_steps)
    tell = Observers([*run.observers, shown], run.screen.say).observe
    portions = _build_portions(contract, tell)
    scorer = NetworkScorer(section, network.shape, prepared.target, model, portions)
    validation = build_validation(scorer, network.loss, portions, plan, prepared)
    validation = share_validation(validation, strategy, portions)
    saving = build_saving(plan, run, length, strategy, requests, tell)
    trained = ModelParts(model, objective, updates.optimizer, strategy, requests)
    rows = rows_of_data(feed, prepared)
    stepping = build_stepping(contract, trained, rows, ends.by_step, tell, saving.fence.wait)
    measured = _build_measured(contract, prepared, trained, stepping, run, tell)
    weights_state = _with_stages(updates.state, model, strategy)
    own_state = merge_state({"random": RandomState(), "portions": portions}, ends.state)
    recorders = _recorders(run, device, measured)
    save_requested = requests.signalled_save(SaveRequested(run.flag))
    inventory = _inventory(plan, prepared, strategy)
    store = with_same_bits(_from_origin(saving, plan), contract.resume, inventory)
    job = Job(
        model=model,
        feed=ramped_source(contract, feed),
        step=stepping.step,
        outcome_observers=(*stepping.outcome_observers, *updates.averages),
        probes=measured.probes,
        knobs=(*updates.knobs, stepping.caution),
        guard=stepping.guard,
        stop_rules=(*ends.rules(length, run.flag, requests), *run.added.stop_rules),
        state=merge_state(weights_state, stepping.state, measured.state, own_state),
        # Lines are cut before the event says so, on which a sink relies.
        observers=(recorders, *run.observers, *saving.observers, ends.reserve, shown),
        validate=updates.validated(validation),
        validate_every=length.validate_every if len(prepared.validation) else Never(),
        patience=ends.patience,
        rank_by=training.checkpointing.rank_by,
        checkpoints=_share_store(store, strategy, plan, run),
        checkpoint_every=FirstOf([stepping.saved(saving.due), save_requested]),
        inventory=inventory,
    )
    if strategy.rank:
        job = replace(job, observers=(), probes=NoProbes())
    job = with_fault_points(job, updates.optimizer)
    return Composed(job, feed, saving, network.state, scorer, updates.weights, ends.limit)


def read_whole(
    composed: Composed, section: ModelSection, plan: Plan, prepared: Prepared, ended: Ended
) -> Composed:
    """The whole model on this process, from the last checkpoint of a training whose ranks have held
    shards of it.

    Raises:
        StorageFailed: that checkpoint could not be written.
    """
    alone = SingleProcess(next(composed.job.model.parameters()).device)
    network = _build(section, plan.contract, prepared, alone)
    newest = composed.saving.checkpoints.newest_valid()
    if not isinstance(newest, Loaded) or newest.step != ended.progress.step:
        raise StorageFailed("the last checkpoint is missing, from which the model would be read")
    network.state.restore(evaluated_part(newest.parts))
    return replace(
        composed,
        job=replace(composed.job, model=network.model),
        model=network.state,
        scorer=composed.scorer.of(network.model),
        weights=TrainedWeights(),
    )


def _build(
    section: ModelSection, contract: Contract, prepared: Prepared, strategy: Strategy
) -> _Learned:
    """Draw the weights, set their layout and apply activation checkpointing, as the plan says; the
    state and the optimizer are made of what the strategy has wrapped."""
    device = strategy.device
    seed_generators(contract.seed)
    shape, training = shape_of(prepared), contract.training
    family = network_family(section)
    model = with_projection(contract, family.build(section, shape), prepared).to(device)
    family.lay_out(model, settled(training.compute.memory_format))
    blocks = list(family.blocks(model))
    recompute(blocks, training.memory.activation_checkpointing)
    # Of a model in the shape of a base the rules know no shape.
    over = contract.distributed
    divided = over.model_ranks > 1
    if divided and (problems := list(section.division_problems(over.tensor, over.pipeline))):
        raise Mistake(problems)
    model = strategy.wrap(model, blocks)
    quantiles = prepared.target.quantiles
    width = section.embedding_width if contract.data.is_one_way else 0
    several = bool(prepared.target.target_names)
    rows = class_rows(prepared)
    loss = build_loss(training.loss, rows, device, quantiles, width, several=several)
    outside = family.base_names(section, model)
    state = ModuleState(model, section.base_weights if outside else "", outside)
    return _Learned(model, state, shape, loss, build_objective(contract, loss), outside)


def _learning(section: ModelSection, network: _Learned, feed: Feed) -> Learning:
    """What the optimizer is built for."""
    family, model = network_family(section), network.model
    undecayed, factors = frozenset(family.undecayed(model)), family.width_factors(section, model)
    return Learning(model, network.objective, feed, undecayed, network.outside, factors)


def _build_measured(
    contract: Contract,
    prepared: Prepared,
    trained: ModelParts,
    stepping: Stepping,
    run: RunContext,
    tell: Callable[[Event], None],
) -> TelemetryParts:
    """Probes and gauges of the model, its steps and its rows."""
    training = contract.training
    # The first rank alone measures.
    is_whole = not contract.distributed.divides_model
    precision: PrecisionChoice = settled(training.mixed_precision)
    measurable = Measurable(trained.model, precision, target_unit(prepared), is_whole)
    gauges = (*stepping.gauges, *feed_gauges(contract))
    return build_measured(contract.tracking, measurable, run, tell, gauges, stepping.probes)


def _build_portions(contract: Contract, tell: Callable[[Event], None]) -> AdaptiveEvalBatch:
    """Evaluation batch size, which ranks that wait for each other inside a pass do not change."""
    training = contract.training
    size = training.validation.batch_size
    policy = "raise" if contract.distributed.divides_model else training.guard.out_of_memory
    return AdaptiveEvalBatch(policy, tell, size=0 if size == "default" else size)


def _build_ends(plan: Plan, length: Length, used_seconds: float) -> _Ends:
    contract, delay = plan.contract, EndingDelay(plan.allotment)
    is_timed = plan.allotment.is_made
    reserve = Reserve(plan.allotment.reserve(), (lambda: delay.seconds) if is_timed else None)
    stop = contract.training.stop
    what = name_budget(contract.budget)
    steps = length.most_steps
    is_open = any(choice.path == "training.num_epochs" for choice in plan.choices)
    shortens = is_open and length.scheduled_steps == steps
    seconds = plan.training_seconds
    limit = TimeLimit(seconds, what, reserve, used_seconds, steps, shortens=shortens)
    patience = _patience(contract)
    target, by_step = build_target(stop, patience), build_step_rules(stop)
    return _Ends(patience, limit, reserve, target, by_step)


def _from_origin(saving: SaveParts, plan: Plan) -> CheckpointStore:
    """Store of a run, which may begin at a checkpoint of another one."""
    if not plan.start:
        return saving.store
    return begin_elsewhere(saving.store, Origin.from_json(plan.start))


def _share_store(
    store: CheckpointStore, strategy: Strategy, plan: Plan, run: RunContext
) -> CheckpointStore:
    """The store, shared where there are several ranks."""
    if strategy.world_size == 1:
        return store
    own = Origin(run.folder.path, 0, run.identity.lineage)
    return SharedCheckpoints(
        store, strategy, own, Origin.from_json(plan.start) if plan.start else None
    )


def _recorders(run: RunContext, device: torch.device, measured: TelemetryParts) -> Observer:
    recorder = SignalRecorder(run.folder.signals, WINDOW, reader(device))
    return Observers([recorder, *measured.windows], run.screen.say)


def _patience(contract: Contract) -> Patience:
    """Tracker of the best value: without early stopping that of the contract's metric, to which
    `stop.target_reached` applies."""
    stopping = contract.training.early_stopping
    if stopping == "off":
        name = contract.metric.name
        return Patience(f"val_{name}", METRICS[name].direction, math.inf)
    direction: Direction = settled(stopping.mode)
    return Patience(stopping.metric, direction, settled(stopping.patience), stopping.min_delta)


def _with_stages(
    state: Mapping[str, Stateful], model: nn.Module, strategy: Strategy
) -> Mapping[str, Stateful]:
    """The state of the weights and their optimizer, of all stages where there are several."""
    if not isinstance(strategy, Staged):
        return state
    own = [name for name, _ in model.named_parameters()]
    names = [name for name in (MODEL, "optimizer") if name in state]
    staged = {name: StageState(state[name], own, strategy.gather_stages) for name in names}
    return {**state, **staged}


def _inventory(plan: Plan, prepared: Prepared, strategy: Strategy) -> Json:
    """Description of the run beyond its state, for deciding whether a resume can be exact."""
    compiled = plan.contract.training.compute.compile == "on"
    return {
        "plan": plan.hash,
        "data": prepared.version,
        **numerics_of(strategy.device, compiled=compiled),
        "ranks": strategy.world_size,
        "tensor": plan.contract.distributed.tensor,
        "pipeline": plan.contract.distributed.pipeline,
    }
