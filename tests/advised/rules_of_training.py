"""Contracts whose model, training, memory, tracking or budget contradict themselves."""

from __future__ import annotations

from dataclasses import replace

from advised.cases import Case

SGD = "training.optimizer={name: sgd, learning_rate: 0.1, momentum: 0"
FREE = "training.optimizer={name: schedule_free_adamw}"
CONSTANT = "training.scheduler={name: constant}"
SWA = "training.average={kind: swa"
IN_BACKWARD = "training.memory.update=in_backward"
CLIP_OFF = "training.gradient_clipping=off"
PADDED = 'data={kind: tokens, path: notes.txt, windows: padded, separator: "\\n\\n"'

CASES = tuple(
    replace(case, base="network")
    for case in (
        Case(
            "change it, or remove training.loss",
            ("task=classification", "training.loss.name=mse"),
            does=("training.loss.name=cross_entropy",),
        ),
        Case(
            "change it, or remove training.loss",
            ("training.loss.name=mse",),
            does=("training.loss.name=cross_entropy",),
        ),
        Case("remove training, or change model.kind to mlp", ("model={kind: boosting}",)),
        Case(
            "write training.checkpointing.save_optimizer_state: true, or "
            "training.guard.non_finite: raise",
            (
                "training.checkpointing.save_optimizer_state=false",
                "training.guard.non_finite=rollback",
            ),
        ),
        Case("change it to 64", ("training.batch_size=32", "training.effective_batch_size=70")),
        Case(
            "change effective_batch_size to 64, or gradient_accumulation_steps to 3, or "
            "batch_size to 48",
            ("training.gradient_accumulation_steps=2", "training.effective_batch_size=96"),
        ),
        Case(
            "write a smaller one",
            ("training.batch_size=9000000000",),
            does=("training.batch_size=32",),
        ),
        Case(
            "remove one",
            (
                SWA + ", start_epoch: 1, start_ratio: 0.5}",
                "training.num_epochs=8",
            ),
            does=("-training.average.start_epoch", "-training.average.start_ratio"),
        ),
        Case(
            "change it to epoch, or learning_rate.kind to constant",
            (
                SWA + ", start_ratio: 0.25, every_n_steps: 1, learning_rate: {kind: cyclic}}",
                "training.num_epochs=8",
            ),
            does=("training.average.learning_rate.kind=constant",),
        ),
        Case(
            "add for example expected_hours_between_failures: 24, or write a number of minutes",
            ("training.checkpointing.save_every_minutes=measured",),
            does=("training.checkpointing.save_every_minutes=10",),
        ),
        Case(
            "remove one of the two",
            (
                "training.checkpointing={save_every_minutes: 10, "
                "expected_hours_between_failures: 24}",
            ),
            does=(
                "-training.checkpointing.save_every_minutes",
                "-training.checkpointing.expected_hours_between_failures",
            ),
        ),
        Case(
            "write it with its scheme: s3://, gs://, az:// or file:///",
            ("training.checkpointing.remote=bucket/folder",),
            does=("training.checkpointing.remote=file:///bucket/folder",),
        ),
        Case(
            "give credentials through the environment, for S3 as AWS_ACCESS_KEY_ID and "
            "AWS_SECRET_ACCESS_KEY",
            ("training.checkpointing.remote=s3://bucket/folder?region=eu",),
            does=("training.checkpointing.remote=file:///bucket/folder",),
        ),
        Case("remove it", ("training.compute.memory_format=channels_last",)),
        Case(
            "write training.mixed_precision: fp32, or remove matrix_products",
            ("training.mixed_precision=tf32", "training.compute.matrix_products=onednn"),
        ),
        Case(
            "remove it; a smaller training.batch_size saves memory too",
            ("training.memory.activation_checkpointing=full",),
        ),
        Case(
            "lower n",
            (
                "model={kind: tabular_resnet, blocks: 2}",
                "training.memory.activation_checkpointing={kind: every, n: 5}",
            ),
            does=("training.memory.activation_checkpointing.n=2",),
        ),
        Case(
            "change it, or remove training.memory.update",
            (IN_BACKWARD, CLIP_OFF, "training.optimizer={name: muon}"),
            does=("training.optimizer.name=adamw",),
        ),
        Case(
            "write gradient_clipping: off, or remove training.memory.update",
            (IN_BACKWARD, "training.gradient_clipping=1.0"),
        ),
        Case(
            "choose bf16 or fp32, or remove training.memory.update",
            (IN_BACKWARD, CLIP_OFF, "training.mixed_precision=fp16"),
            does=("training.mixed_precision=bf16", "training.mixed_precision=fp32"),
        ),
        Case(
            "write non_finite: rollback, or remove training.memory.update",
            (IN_BACKWARD, CLIP_OFF, "training.guard.non_finite=skip"),
        ),
        Case(
            "remove it, or remove training.memory.update",
            (IN_BACKWARD, CLIP_OFF, "training.guard.out_of_memory=split"),
        ),
        Case(
            "write gradient_accumulation_steps: 1, or remove training.memory.update",
            (IN_BACKWARD, CLIP_OFF, "training.gradient_accumulation_steps=2"),
        ),
        Case(
            "change it, or remove training.memory.offload_optimizer",
            ("training.memory.offload_optimizer=true", "training.optimizer={name: muon}"),
            does=("training.optimizer.name=adamw",),
            leaves="there is no GPU",
        ),
        Case("remove it", ("training.memory.offload_optimizer=true", SGD + "}")),
        Case(
            "remove one of the two",
            ("training.memory.offload_optimizer=true", IN_BACKWARD, CLIP_OFF),
            does=("-training.memory.update", "-training.memory.offload_optimizer"),
            leaves="there is no GPU",
        ),
        Case(
            "remove it; adafactor and adamw_8bit keep less state on a CPU too",
            ("training.memory.offload_optimizer=true",),
            does=(("-training.memory.offload_optimizer", "training.optimizer={name: adafactor}"),),
        ),
        Case(
            "remove it; activation_checkpointing saves memory on a CPU too",
            ("model={kind: tabular_resnet}", "training.memory.offload_activations=true"),
            does=(
                (
                    "-training.memory.offload_activations",
                    "training.memory.activation_checkpointing=full",
                ),
            ),
        ),
        Case(
            "write scheduler: {name: constant, warmup_ratio: 0.05}",
            (FREE, "training.scheduler={name: cosine_with_warmup}"),
        ),
        Case(
            "remove training.average, or choose another optimizer",
            (FREE, CONSTANT, "training.average={kind: ema}"),
            does=("training.optimizer={name: adamw}",),
        ),
        Case(
            "write batch_scaling: sqrt, or remove base_batch_size",
            ("training.optimizer={name: adamw, base_batch_size: 128}",),
        ),
        Case("write momentum: 0.9, or remove nesterov", (SGD + ", nesterov: true}",)),
        Case(
            "remove one",
            ("training.scheduler={name: cosine_with_warmup, warmup_steps: 2, warmup_ratio: 0.1}",),
            does=("-training.scheduler.warmup_steps", "-training.scheduler.warmup_ratio"),
        ),
        Case(
            "change decay_ratio to 0.7 or less",
            (
                "training.scheduler={name: warmup_stable_decay, warmup_ratio: 0.3, "
                "decay_ratio: 0.8}",
            ),
        ),
        Case("write [0.5, 0.8]", ("training.scheduler={name: step, milestones: [0.8, 0.5, 0.5]}",)),
        Case(
            "change early_stopping.patience to 11",
            (
                "training.num_epochs=80",
                "training.early_stopping.patience=4",
                "training.scheduler={name: reduce_on_plateau, patience: 5}",
            ),
        ),
        Case(
            "change it to 4",
            ("training.ramps.batch={start: 32, ratio: 0.5}", "training.effective_batch_size=32"),
        ),
        Case(
            "remove training.ramps.batch",
            (
                "training.batch_size=8",
                "training.ramps.batch={start: 8, ratio: 0.5}",
                "training.effective_batch_size=8",
            ),
        ),
        Case("remove training.ramps.sequence", ("training.ramps.sequence={start: 4, ratio: 0.5}",)),
        Case(
            "remove one",
            (
                "training.ramps.batch={start: 4, samples: 60, ratio: 0.5}",
                "training.effective_batch_size=32",
            ),
            does=("-training.ramps.batch.samples", "-training.ramps.batch.ratio"),
        ),
        Case(
            "change it, or remove training.memory.head_loss", ("training.memory.head_loss=fused",)
        ),
        Case(
            "rename it to num_steps, which counts optimizer steps",
            ("training={num_tokens: 300, batch_size: 32}",),
        ),
        Case(
            "write samples in place of ratio",
            ("training={num_steps: 8, batch_size: 32, ramps: {batch: {start: 8}}}",),
            does=("training.ramps.batch={start: 8, samples: 64}",),
        ),
        Case(
            "rename it to max_samples, which counts training rows",
            ("training.stop.max_tokens=100",),
        ),
        Case(
            "remove schedule_spans, or add a limit",
            ("training.stop.schedule_spans=limits",),
            does=("training.stop.max_steps=5",),
        ),
        Case(
            "halve training.batch_size and write gradient_accumulation_steps: 2, or remove it",
            ("tracking.windows={noise_scale: 1}", "training.gradient_accumulation_steps=1"),
            does=(("training.batch_size=16", "training.gradient_accumulation_steps=2"),),
        ),
        Case(
            "remove training.seeds, or training.refit",
            ("training.seeds=3", "training.refit=true"),
            does=("-training.refit",),
        ),
        Case(
            "remove training.scheduler, or training.refit",
            ("training.scheduler.name=reduce_on_plateau", "training.refit=true"),
            does=("-training.refit",),
        ),
        Case(
            "remove training.seeds, or data.split.folds",
            ("training.seeds=3", "data.split={kind: random, folds: 3}"),
            does=("-data.split.folds",),
        ),
        Case(
            "remove data.sampling",
            ("model={kind: linear}", "-training", "data.sampling.kind=balanced"),
        ),
        Case("remove shuffle", ("data.shuffle=false", "data.sampling={kind: balanced}")),
        Case(
            "add for example column: source",
            ("data.sampling={kind: mixture}",),
            leaves="no column 'source'",
        ),
        Case(
            "choose weighted, with a column of weights",
            ("task=regression", "data.target=x", "data.sampling={kind: balanced}"),
            does=("data.sampling={kind: weighted, column: z}",),
        ),
        Case(
            "remove one",
            (
                "data.sampling={kind: mixture, column: word, temperature: 2, "
                "weights: {red: 1, green: 1, blue: 2}}",
            ),
            does=("-data.sampling.weights", "-data.sampling.temperature"),
        ),
        Case("remove num_workers", ("model={kind: linear}", "-training", "data.num_workers=2")),
        Case(
            "remove tracking.windows, or tracking.inspect",
            ("tracking.windows=off", "tracking.inspect={}"),
            does=("-tracking.inspect",),
        ),
        Case(
            "remove attention, or choose model.kind gpt",
            ("tracking.inspect.which=[activations, attention]",),
            does=("-tracking.inspect.which.1",),
        ),
        Case(
            "keep one, for example validate_every_n_steps",
            ("training.validate_every_n_epochs=1", "training.validate_every_n_steps=5"),
            does=("-training.validate_every_n_epochs", "-training.validate_every_n_steps"),
        ),
        Case(
            "rename it to validate_every_n_steps, which counts optimizer steps",
            ("training.validate_every_n_tokens=500",),
        ),
        Case("change it to 16", ("model={kind: ft_transformer, width: 18, heads: 8}",)),
        Case(
            "change it, or take strategy: ddp",
            ("distributed={strategy: fsdp, num_gpus: 2}", "training.optimizer={name: adafactor}"),
            does=("training.optimizer.name=adamw", "distributed.strategy=ddp"),
        ),
        Case(
            "change it to ddp",
            ("model={kind: xgboost}", "-training", "distributed={strategy: fsdp, num_gpus: 2}"),
        ),
        Case(
            "write model.objective: squared_error, or change it to single",
            (
                "data.target=x",
                "model={kind: xgboost}",
                "metric.name=mae",
                "-training",
                "distributed.strategy=ddp",
            ),
            does=("model.objective=squared_error", "distributed.strategy=single"),
        ),
        Case(
            "add strategy: ddp, or remove it",
            ("distributed.num_gpus=2",),
            does=("distributed.strategy=ddp",),
        ),
        Case(
            "change it to single", ("model={kind: linear}", "-training", "distributed.strategy=ddp")
        ),
        Case(
            "change it to after_backward",
            ("distributed.strategy=ddp", "training.memory.update=in_backward"),
        ),
        Case("change it to off", ("distributed.strategy=ddp", "tracking.windows.noise_scale=9")),
        Case("choose auto", ("distributed.backend=nccl",)),
        Case(
            "remove distributed.tensor",
            ("distributed={strategy: ddp, num_gpus: 2, tensor: 2}",),
        ),
        Case("change it to 16", ("training.ramps.batch={start: 4, samples: 9999}",)),
        Case("change it to 1", ("training.scheduler.warmup_steps=9999",)),
        Case(
            "write every_n_steps: 1, or an earlier start",
            (SWA + ", start_ratio: 0.5, every_n_steps: 9}",),
            does=(("training.average.start_ratio=0.25", "training.average.every_n_steps=1"),),
        ),
        Case(
            "write every_n_steps: 1, and an earlier start",
            (SWA + ", start_ratio: 0.9, every_n_steps: 9}",),
            does=(("training.average.start_ratio=0.25", "training.average.every_n_steps=1"),),
        ),
        Case(
            "change it to val_f1_macro",
            ("metric.name=accuracy", "training.early_stopping.metric=val_f1", "data.target=word"),
        ),
        Case(
            "write bf16, or train on such a GPU",
            ("training.mixed_precision=fp8",),
            does=("training.mixed_precision=bf16",),
        ),
        Case(
            "write batch_size: 64",
            (
                IN_BACKWARD,
                CLIP_OFF,
                "training.effective_batch_size=64",
                "training.guard.non_finite=rollback",
            ),
        ),
    )
)
