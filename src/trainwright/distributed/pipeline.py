"""Pipeline parallelism: the blocks of a network in stages, through which micro-batches go."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, final

import torch
from torch import Tensor, distributed, nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
from torch.nn import functional

from trainwright.core.files import Json
from trainwright.distributed.data_parallel import notice_lost_peers
from trainwright.distributed.model_parallel import ModelParallel
from trainwright.distributed.strategy import StagePasses


@final
class PipelineParallel(ModelParallel):
    """A rank of a model in stages, whose matrices may be divided as well."""

    def _divide(self, model: Any) -> None:
        """Keep one stage. In evaluation mode it gives the logits of all stages on each of them; in
        training `run_passes` calls it."""
        self._network = model
        self._like = model.head_weight.new_empty(0)
        self._scored: Sequence[int] = ()  # rows and positions
        model.cut(self.stage, self.stages, self.tensor_ranks)
        model.register_forward_pre_hook(self._receive_scored)
        if self.tensor_ranks > 1:
            model.divide(self.mesh["tensor"])
        model.register_forward_hook(self._send_scored)

    def _receive_scored(self, network: Any, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """In evaluation, where all ranks have the tokens, the output of the stage before."""
        if network.training:
            return inputs
        tokens, *others = inputs
        self._scored = tokens.shape
        if not self.stage:
            return inputs
        positions = -(-tokens.shape[1] // self.tensor_ranks)
        given = self._like.new_empty(len(tokens), positions, network.width)
        group = self.mesh.get_group("pipeline")
        with notice_lost_peers():
            distributed.recv(given, group=group, group_src=self.stage - 1)
        return given, *others

    def _send_scored(self, network: Any, _inputs: object, output: Tensor) -> Tensor:
        """In evaluation the logits of the last stage."""
        if network.training:
            return output
        group = self.mesh.get_group("pipeline")
        logits = output[:, : self._scored[1]].to(self._like.dtype).contiguous()
        with notice_lost_peers():
            if network.continues:
                distributed.send(output.contiguous(), group=group, group_dst=self.stage + 1)
                logits = self._like.new_empty(*self._scored, network.outputs)
            distributed.broadcast(logits, group=group, group_src=self.stages - 1)
        return logits

    def run_passes(self, passes: StagePasses) -> None:
        """Make the passes of a step in the order 1F1B (Narayanan et al. 2021, arXiv:2104.04473,
        section 2.2); gradients accumulate."""
        count = max(len(passes.inputs), self.stages)
        rows = max(len(inputs[0]) for inputs in passes.inputs)
        # A pipeline takes micro-batches of one size, as many as stages, and tensor ranks as many
        # positions each: what is added has no loss.
        missing = -passes.inputs[0][0].shape[1] % self.tensor_ranks
        padded = [
            [functional.pad(one, (0, missing, 0, rows - len(one))) for one in inputs]
            for inputs in passes.inputs
        ]
        padded += [padded[0]] * (count - len(padded))
        tokens, *positions = (torch.cat(column) for column in zip(*padded, strict=True))
        called = _Called(self._network, passes)
        schedule = Schedule1F1B(
            self._stage_of(called, rows, tokens.shape[1]),
            count,
            loss_fn=called.loss_of,
            scale_grads=False,
        )
        arguments = (tokens,) if not self.stage else ()
        named: dict[str, Any] = {"positions": positions[0]} if positions else {}
        with notice_lost_peers():
            schedule.step(*arguments, target=torch.arange(count), return_outputs=False, **named)

    def _stage_of(self, called: nn.Module, rows: int, length: int) -> PipelineStage:
        """This stage for micro-batches of one size: between stages go activations [B, L, D] in
        the type of the weights, after the last one logits."""
        network = self._network
        kind = next(network.parameters()).dtype
        shapes = [(rows, length // self.tensor_ranks, network.width)] * (self.stages + 1)
        shapes[-1] = (rows, length, network.outputs)
        given, made = (
            torch.empty(shape, dtype=kind, device="meta").requires_grad_()
            for shape in shapes[self.stage : self.stage + 2]
        )
        if not self.stage:
            given = torch.empty(rows, length, dtype=torch.int64, device="meta")
        group = self.mesh.get_group("pipeline")
        return PipelineStage(called, self.stage, self.stages, self.device, given, made, group=group)

    def gather_stages(
        self, tensors: Mapping[str, Tensor], values: Json
    ) -> list[tuple[Mapping[str, Tensor], Json]]:
        """On rank 0 tensors and values of every stage, on others nothing."""
        if self.rank % (self.world_size // self.stages):
            return []
        with notice_lost_peers():
            if self.stage:
                self._send(tensors, values)
                return []
            others = [self._receive(stage) for stage in range(1, self.stages)]
        return [(tensors, values), *others]

    def _send(self, tensors: Mapping[str, Tensor], values: Json) -> None:
        """Send to rank 0 what `_receive` receives: the size of a description, it, the tensors."""
        shapes = {name: [str(one.dtype), list(one.shape)] for name, one in tensors.items()}
        about = torch.tensor(list(json.dumps([shapes, values]).encode()), dtype=torch.uint8)
        for tensor in (torch.tensor([len(about)]), about, *tensors.values()):
            group = self.mesh.get_group("pipeline")
            distributed.send(tensor.to(self.device).contiguous(), group=group, group_dst=0)

    def _receive(self, stage: int) -> tuple[Mapping[str, Tensor], Json]:
        def receive(shape: Sequence[int], kind: str) -> Tensor:
            tensor = torch.empty(shape, dtype=getattr(torch, kind), device=self.device)
            group = self.mesh.get_group("pipeline")
            distributed.recv(tensor, group=group, group_src=stage)
            return tensor.cpu()

        about = receive([int(receive([1], "int64"))], "uint8")
        shapes, values = json.loads(bytes(about.tolist()))
        return {
            name: receive(shape, kind.removeprefix("torch."))
            for name, (kind, shape) in shapes.items()
        }, values


@final
class _Called(nn.Module):
    """A stage as the schedule calls it: once for each micro-batch, in their order."""

    def __init__(self, network: nn.Module, passes: StagePasses) -> None:
        super().__init__()
        self.network = network
        self._passes = passes
        self._made = 0

    def forward(self, x: Tensor, **named: Tensor) -> Tensor:
        """Output of the stage; the loss of 16-bit logits is in fp32."""
        self._passes.draw(self._made)
        self._made += 1
        with self._passes.forward():
            output: Tensor = self.network(x, **named)
        return output.float() if output.dtype in (torch.bfloat16, torch.float16) else output

    def loss_of(self, logits: Tensor, number: Tensor) -> Tensor:
        """Loss of a micro-batch, without what was added to it."""
        at = int(number)
        if at >= len(self._passes.inputs):
            return logits.sum() * 0.0
        rows, positions = self._passes.inputs[at][0].shape
        with self._passes.forward():
            return self._passes.loss(at, logits[:rows, :positions])
