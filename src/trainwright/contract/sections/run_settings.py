"""`budget`, `compute`, `distributed`, `resume`, `serving`, `tracking` and `tune`: how a run, or a
search of many, is carried out."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from trainwright.contract.sections.section import Auto, Count, NonNegative, Positive, Section

Determinism = Literal["bitwise", "run_to_run", "off"]

SinkKind = Literal["mlflow", "tensorboard", "wandb"]

ServerAddress = Annotated[str, Field(pattern=r"^https?://[^\s/]+")]
"""Address of a server over HTTP."""

NoticePath = Annotated[str, Field(pattern="/")]
"""A file path with a slash, so that no misspelt cloud is taken for one."""


class Budget(Section):
    """What the run may use. Before the training starts, a few of its steps are measured, and what
    the contract leaves open (epochs, rows of a step, validations) is decided so that the learning
    rate ends its schedule within the budget. What is written is kept, and cut."""

    hours: Literal["unlimited"] | Positive = "unlimited"
    """Most hours of wall-clock time for the run, over all its attempts: reading, preparing,
    baselines, training, validations and judging. Of an attempt that was killed at most its last 10
    seconds are not counted."""

    cost: Literal["unlimited"] | Positive = "unlimited"
    """Maximum cost of the run, in the currency of `price_per_hour`."""

    price_per_hour: NonNegative = 0.0
    """Price of this machine per hour; needed for `cost`, and shown with the time of a run: on the
    screen, in the report, in `runs list` and in the record."""

    def seconds(self) -> float:
        """The seconds that time and money allow, whichever is less; infinite without a limit."""
        hours = math.inf if self.hours == "unlimited" else self.hours
        if self.cost != "unlimited":
            hours = min(hours, self.cost / self.price_per_hour)
        return hours * 3600


class Resources(Section):
    """What a training uses of the machine. How a network computes is `training.compute`."""

    threads: Auto | Annotated[int, Field(ge=1, le=1024)] = "auto"
    """CPU threads of the training, of its validations and of the predictions that judge it: of
    torch, BLAS and every library of trees. Divide the cores by the number of trainings that run at
    a time. `auto`: those of a training by itself, which are the cores that the process may use,
    within the CPU quota of its container; torch takes `OMP_NUM_THREADS` if that is set, and trees
    as many as pay. The bits of a network depend on the number that is used, which stands in the
    plan; see `resume.numerics_changed`. Not of loader processes: `data.num_workers`."""


class Distributed(Section):
    """Over how many devices, and how the work is divided among them. `trainwright train` starts a
    process for each with torchrun, or joins those that torchrun has started. Each takes whole
    micro-batches of `training.batch_size` rows, so that N processes train what one process trains
    with N times their `gradient_accumulation_steps`. Of `kind: xgboost` each takes a part of the
    rows (`ddp`), on its CPU."""

    strategy: Auto | Literal["single", "ddp", "fsdp"] = "single"
    """`single`: one process. `ddp`: a copy of the model on each device. `fsdp`: each device holds a
    shard of every weight, gradient and moment, and gathers a block when it needs it. `auto`: the
    fastest of those that the memory of a device allows, chosen when a run starts and kept when it
    goes on."""

    num_gpus: Auto | Count = "auto"
    """Devices: GPUs, or processes on a machine without one. `auto`: the GPUs of this machine; one
    with `strategy: single`. With `strategy: auto` as many at most."""

    backend: Auto | Literal["gloo", "nccl"] = "auto"
    """Communication backend between devices."""

    replicas: Count = 1
    """Of `fsdp`: groups of devices that hold the whole model in shards (HSDP). Weights are gathered
    within a group, so with a group for each host gradients alone cross the slower link."""

    reshard_after_forward: bool = True
    """Of `fsdp`: free the gathered weights of a block after its forward pass too (ZeRO-3). Without,
    they stay until its backward pass (ZeRO-2): more memory, a third fewer bytes exchanged."""

    tensor: Count = 1
    """Devices that divide the matrices of a `gpt` among them (Shoeybi et al. 2019,
    arXiv:1909.08053), and between its matrices the positions (Korthikanti et al. 2022,
    arXiv:2205.05198). They work on the same micro-batches: the rows of a step are divided among
    `num_gpus` / (`tensor` x `pipeline`)."""

    pipeline: Count = 1
    """Stages of the blocks of a `gpt`, each on other devices, through which the micro-batches of a
    step go one after another (1F1B: Narayanan et al. 2021, arXiv:2104.04473, section 2.2). The
    larger `gradient_accumulation_steps` is, the less do stages wait for each other."""

    @property
    def divides_model(self) -> bool:
        """Whether no process holds the whole model."""
        return self.strategy == "fsdp" or self.model_ranks > 1

    @property
    def model_ranks(self) -> int:
        """Devices among which a model is divided."""
        return self.tensor * self.pipeline

    @property
    def shards(self) -> int:
        """Devices that share weights, gradients and moments; 1 while `num_gpus` is open."""
        if self.strategy == "fsdp" and self.num_gpus != "auto":
            return self.num_gpus // self.replicas
        return self.model_ranks

    @property
    def data_ranks(self) -> int:
        """Among how many the rows of a step are divided; 1 while `num_gpus` is open."""
        return 1 if self.num_gpus == "auto" else self.num_gpus // self.model_ranks


class Resume(Section):
    """How an interrupted run resumes: with the contract that it was started with."""

    data_changed: Literal["refuse", "record"] = "refuse"
    """If the data differs from the run's: `refuse` stops with exit code 11, `record` continues and
    notes it in the record."""

    code_changed: Literal["refuse", "record"] = "refuse"
    """If the code of a model of `kind: imported` differs from the run's: `refuse` stops with exit
    code 2, `record` continues with the new code and notes its hashes in the events."""

    determinism: Auto | Determinism = "auto"
    """How alike the run and its repetitions are. `bitwise`: only algorithms that give the same bits
    every time, an error where an operation has none, and no resume where the bits would differ.
    `run_to_run`: the same algorithms, but a warning where there is none, and a resume elsewhere
    says so and goes on. `off`: whatever is fastest. What it costs is measured at the start of a
    long run and stands in the record. `auto`: `bitwise` on a CPU, `off` on a GPU."""

    numerics_changed: Literal["refuse", "record"] = "refuse"
    """If `determinism: bitwise` meets another torch version, number of threads or of ranks, device
    or instruction set than the run's: `refuse` stops with exit code 2, `record` continues and notes
    it in the events."""

    notice: Literal["off", "aws", "gcp", "azure"] | NoticePath = "off"
    """Source of preemption notices, for spot machines: the metadata service of `aws`, `gcp` or
    `azure`, or a file, such as /run/preempted, created by a scheduler; a relative path starts at
    the contract's folder. On a notice the run ends as on SIGTERM: a checkpoint, exit code 75."""

    notice_every_seconds: Positive = 5.0
    """Seconds between polls for a notice. They are made by a thread; training does not wait for
    it."""

    grace_seconds: Auto | Positive = "auto"
    """Seconds that the machine lasts after a notice or SIGTERM. If a step, a validation and a save
    take longer than this, a warning is given once, because a checkpoint might come too late.
    `auto`: 120 with `notice: aws`, else 30, which Azure, GCP and Kubernetes grant."""


class Serving(Section):
    """Limits of the model in use, measured on this machine when it is judged: clauses of the
    verdict beside the metric. `model: {kind: auto}` keeps no candidate that is over one."""

    latency_ms: Literal["unlimited"] | Positive = "unlimited"
    """Most milliseconds of a prediction of one row by the model of the bundle, once it is loaded
    and warm; of a table from its columns, encoding included. Not of forecasts: their time depends
    on the history that they are given."""

    percentile: Annotated[float, Field(ge=50, le=99.9)] = 95.0
    """Percentile of the times of the predictions that `latency_ms` limits."""

    megabytes: Literal["unlimited"] | Positive = "unlimited"
    """Largest size of the bundle, in 10^6 bytes."""

    @property
    def is_limited(self) -> bool:
        """Is there a limit?"""
        return self.latency_ms != "unlimited" or self.megabytes != "unlimited"


class WindowsSection(Section):
    """Telemetry per window of steps, written to `windows.jsonl`: rows and tokens per second,
    memory, FLOP utilisation, and for each layer group the norms of weights, gradients and updates
    and the share of dead units. These numbers and the loss history are checked for problems, which
    are reported as events."""

    every_n_steps: Auto | Count = "auto"
    """Applied optimizer steps of a window. One step of each window is measured, which costs a copy
    of the trained weights and four passes over them. `auto`: 200 for networks on tables, whose
    steps are short, else 50."""

    noise_scale: Literal["off"] | Count = "off"
    """Steps from one measurement of the gradient noise scale to the next: how many rows a step
    should have (McCandlish et al. 2018, arXiv:1812.06162). It needs two micro-batches a step; a
    measured step costs one norm of the gradient more."""


class Inspect(Section):
    """Network inspection, in one step of every `every_n_windows` windows, written to
    `windows.jsonl` with the rest. Hooks are installed for that step only."""

    every_n_windows: Count = 10
    """Windows from one inspected step to the next."""

    which: tuple[Literal["activations", "silent_units", "gradient_sizes", "attention"], ...] = (
        "activations",
        "silent_units",
        "gradient_sizes",
        "attention",
    )
    """`activations`: mean, standard deviation, zeros and non-finite numbers of each module's
    outputs. `silent_units`: units of ReLU, GELU and similar that are inactive for every row.
    `gradient_sizes`: a histogram over powers of ten. `attention`: the entropy of attention and its
    largest logit, in a gpt; other models have none."""


class Tracking(Section):
    """Where a run is recorded besides its own folder, which always has everything."""

    sinks: tuple[SinkKind, ...] = Field(default=())
    """Trackers that receive the run as well: `mlflow`, a server; `tensorboard`, event files;
    `wandb`, offline files for `wandb sync`. Each is fed by a process of its own, which reads the
    run folder: the training never waits for it."""

    mlflow_uri: Literal["none"] | ServerAddress = "none"
    """Address of the MLflow server, for `mlflow`. A token or a user and password are given in the
    environment: MLFLOW_TRACKING_TOKEN, or MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD."""

    experiment: Auto | Annotated[str, Field(min_length=1, max_length=200)] = "auto"
    """Experiment of MLflow and project of W&B. `auto`: the contract's name."""

    tensorboard_folder: str = ""
    """Folder for event files, in which each run gets one of its name; a relative path starts at
    the contract's folder. Empty: `tensorboard` in the run folder."""

    drain_seconds: NonNegative = 30.0
    """Most seconds that a run waits at its end for what a tracker has not taken yet.
    `trainwright runs sync RUN` sends the rest later."""

    windows: Literal["off"] | WindowsSection = WindowsSection()
    """Telemetry per window of steps; `off` records only the signals of every step."""

    inspect: Literal["off"] | Inspect = "off"
    """Periodic inspection of the network."""


Value = bool | int | float | str


class Searched(Section):
    """Numbers of an interval, or a list of values that is searched only with others."""

    low: Literal["none"] | int | float = "none"
    """Least number, itself among those tried."""

    high: Literal["none"] | int | float = "none"
    """Greatest number. If both are written as whole numbers, only whole numbers are tried."""

    scale: Literal["linear", "log"] = "linear"
    """`log`: each factor is as likely as another, for numbers that differ by powers of ten."""

    values: tuple[Value, ...] = ()
    """A list, in place of an interval."""

    only_with: Mapping[str, Value | tuple[Value, ...]] = {}
    """Searched only where other searched paths have one of these values, such as
    `{model.kind: boosting}`."""

    @property
    def bounds(self) -> tuple[int, int] | tuple[float, float]:
        """`low` and `high` of an interval, as whole numbers if both were written so."""
        low, high = self.low, self.high
        assert low != "none", "a rule of the contract asks for both"
        assert high != "none", "a rule of the contract asks for both"
        if isinstance(low, int) and isinstance(high, int):
            return low, high
        return float(low), float(high)


class Ray(Section):
    """A Ray cluster that runs the trials."""

    ray: str
    """Address of its head, such as `auto` or `ray://host:10001`."""

    trials_at_a_time: Count
    """Trials at a time, as `parallel` is on one machine. It is written rather than taken from the
    cluster, because the values of a trial depend on it: so a search repeats on another cluster.
    Trials that the cluster has no room for wait in its queue."""

    cores: Count = 1
    """Cores of a trial."""

    gpus: Annotated[float, Field(ge=0)] = 0.0
    """GPUs of a trial; a part of one is shared."""


class Tune(Section):
    """A search over values of the contract: each trial is a training with some of them replaced,
    scored on rows that its training did not use; the test rows stay closed until the winner is
    judged, once. The contract's `budget` is that of the whole search."""

    over: Annotated[Mapping[str, tuple[Value, ...] | Searched], Field(min_length=1)]
    """What is searched: a path of the contract, such as `training.optimizer.learning_rate`, with
    a list of values or an interval `{low: 1e-5, high: 1e-2, scale: log}`."""

    method: Auto | Literal["grid", "random", "tpe", "gp", "cmaes"] = "auto"
    """`grid`: every combination of lists, in order. `random`: independent draws. `tpe`: tree of
    Parzen estimators (Bergstra et al. 2011). `gp`: a Gaussian process, for few numbers and slow
    trainings. `cmaes`: covariance matrix adaptation, for numbers alone and hundreds of trials.
    `auto`: `grid` if `trials` are enough for every combination, else `tpe`."""

    trials: Count = 20
    """Trainings of the search. The first is the contract as written: what the others are
    compared with."""

    parallel: Auto | Count | Ray = "auto"
    """Trials at a time on this machine, which share its cores, or a Ray cluster. `auto`: one. The
    values of a trial depend on the results of all but the last `parallel` before it, in their
    order: a search with the same number repeats to the bit, however long its trials take."""

    seeds: Count = 1
    """Trainings of each trial, with seeds that follow the contract's; its score is their mean."""

    folds: Literal["off"] | Annotated[int, Field(ge=2, le=20)] = "off"
    """`off`: a trial is scored on the validation rows. A number: on all training and validation
    rows of a table, each by a model that was trained without its fold."""

    stop: Literal["off", "median", "hyperband"] = "off"
    """Trials ended before their training is: by their validations, `median` those below the
    median of the trials before at the same step, `hyperband` all but a third at each of several
    lengths (Li et al. 2018, JMLR 18:185)."""

    choice: Literal["simplest", "best"] = "simplest"
    """Which trial is kept: the `best`, or, of those that are no worse than the contract as written
    and whose paired interval reaches the best, the one of the smallest model; models of sizes
    within a factor of two count as alike."""

    start: str = ""
    """A study of the same metric whose trials are known before the first; its folder."""

    storage: Auto | str = "auto"
    """Where trials are recorded: `auto` in a journal file of the study's folder; the URL of a
    PostgreSQL database, without a password, for several machines, each of which is given
    `trainwright tune CONTRACT --join STUDY`."""

    @property
    def axes(self) -> dict[str, Searched]:
        """The searched paths, lists as sections too."""
        return {
            path: one if isinstance(one, Searched) else Searched(values=one)
            for path, one in self.over.items()
        }
