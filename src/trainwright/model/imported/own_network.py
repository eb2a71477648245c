"""Networks that the user's own functions return, checked and counted. Needs torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from trainwright.contract.sections.model.imported import Imported
from trainwright.contract.sections.section import settled
from trainwright.core.errors import Mistake
from trainwright.model.count_network import NetworkCounts, count_network
from trainwright.model.family import NetworkFamily
from trainwright.model.imported.load_target import describe_failure, failed, load_function
from trainwright.model.input_shape import Shape, TokenShape
from trainwright.model.model_call import call_model


def build_own(section: Imported, shape: Shape) -> nn.Module:
    """What the function of a section returns.

    Raises:
        Mistake: without the permission, the code has changed, or it fails.
    """
    function = load_function(section.target, section.targets, settled(section.source))
    try:
        network = function(shape, **section.options)
    # Code of the user's may raise anything, and end the interpreter.
    except (Exception, SystemExit) as error:
        given = ", ".join(["shape", *section.options])
        raise failed(
            "the function of the model fails", describe_failure(error), f"a network for ({given})"
        ) from error
    return _checked(network, section.target)


def count_own(family: NetworkFamily[Imported], section: Imported, shape: Shape) -> NetworkCounts:
    """Counted without values, or with those of a few rows where the code needs them.

    Raises:
        Mistake: it cannot compute a batch, or its outputs are not those of the task.
    """
    try:
        return count_network(family, section, shape, _Call(shape))
    except Mistake:
        raise
    except Exception as error:
        names = ", ".join(shape.names)
        raise failed(
            "the network cannot compute a batch", describe_failure(error), f"forward({names})"
        ) from error


@final
@dataclass(frozen=True, slots=True)
class _Call:
    """Calls a network as the training does, and checks its outputs."""

    shape: Shape

    def __call__(self, network: nn.Module, inputs: Sequence[Tensor]) -> Tensor:
        """Outputs [B, C], of tokens [B, T, C].

        Raises:
            Mistake: they have another shape.
        """
        shape = self.shape
        outputs = call_model(network, shape.names, inputs)
        rows = inputs[0].shape[:2] if isinstance(shape, TokenShape) else inputs[0].shape[:1]
        expected = (*rows, shape.outputs)
        if outputs.shape != expected:
            raise failed(
                "the outputs of the network have another shape than the task",
                str(list(outputs.shape)),
                f"{list(expected)}: rows, then {shape.outputs} outputs",
            )
        return outputs


def _checked(network: object, target: str) -> nn.Module:
    if not isinstance(network, nn.Module):
        raise failed("the function returns no network", type(network).__name__, "an nn.Module")
    parameters = list(network.parameters())
    if not parameters:
        raise failed("the network has no parameters to train", target, "at least one")
    if any(is_lazy(one) for one in parameters):
        raise failed(
            "the network has parameters without a size",
            target,
            "sizes that follow from the shape of the inputs: shape.numeric, shape.size",
        )
    return network
