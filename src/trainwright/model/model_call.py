"""Call of any model with the tensors of a batch; protocols of networks. Needs torch."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from inspect import Parameter
from itertools import takewhile
from typing import Literal, Protocol, runtime_checkable

from jaxtyping import Float, Int
from torch import Tensor, nn

from trainwright.core.errors import Mistake, Problem
from trainwright.data.loading.batch import name_positions
from trainwright.model.causal_attention import KeyValueCache

_Arguments = tuple[
    Literal["in order", "named", "passed on"], tuple[int, ...], tuple[tuple[str, int], ...], bool
]
"""Whether all tensors are passed in order and nothing else, or else the positions of those that are
passed by position, names and positions of those that are passed by keyword, and whether the model
has a cache to be switched off. A model that passes on what it gets is asked for its only child."""

_BY_NAME = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
_ANYTHING = {Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD}
_KNOWN: dict[tuple[type, tuple[str, ...]], _Arguments] = {}


@runtime_checkable
class TokenDecoder(Protocol):
    """Network that predicts the token after those it has read, at most `context` of them."""

    context: int

    def extend(self, tokens: Int[Tensor, "B L"], cache: KeyValueCache) -> Float[Tensor, "B V"]:
        """Logits of the token after the last of `tokens`, which follow those of the cache; the
        cache grows by them."""
        ...


@runtime_checkable
class ImageDescriber(Protocol):
    """Network that writes of images."""

    def about(self, pixels: Tensor) -> TokenDecoder:
        """What writes of an image [1, C, H, W]."""
        ...


@runtime_checkable
class InBlocks(Protocol):
    """Network that consists mostly of a sequence of blocks, for block-wise treatment.

    Each block is called once per forward pass, does not modify its inputs, and depends only on its
    inputs, its parameters and buffers, and torch's RNG.
    """

    @property
    def blocks(self) -> Iterable[nn.Module]:
        """Blocks from first to last."""
        ...


@runtime_checkable
class WithAttention(Protocol):
    """Network with self-attention in its blocks."""

    @property
    def projections(self) -> Mapping[str, nn.Module]:
        """Query-key-value projection of each block, by the path of the block."""
        ...

    def split(
        self, block: str, projected: Float[Tensor, "B L D"]
    ) -> Sequence[Float[Tensor, "B H L d"]]:
        """Queries, keys and values from the output of a projection."""
        ...


def call_model(model: nn.Module, names: tuple[str, ...], tensors: Sequence[Tensor]) -> Tensor:
    """Output of a model for the inputs of a batch.

    Inputs without names (`input`, `input_1`, ...) are passed in order. Of others the model gets
    those that its `forward` names, whatever their order in the batch; if it names none of them, all
    in order. A wrapper whose `forward` takes anything is asked for the module that it wraps. The
    cache of keys and values of a transformers model is switched off: a loss has no use for it.

    Raises:
        Mistake: `forward` needs an argument that the batch lacks, or there is no output tensor.
    """
    asked = model
    while (arguments := _arguments(type(asked), names))[0] == "passed on":
        children = list(asked.children())
        if len(children) != 1:
            break
        (asked,) = children
    how, positions, keywords, caches = arguments
    if how == "in order":
        return outputs_of(model(*tensors))
    named: dict[str, object] = {name: tensors[at] for name, at in keywords}
    if caches:
        named["use_cache"] = False
    return outputs_of(model(*(tensors[at] for at in positions), **named))


def _arguments(kind: type, names: tuple[str, ...]) -> _Arguments:
    """How a model of this type takes inputs of these names."""
    known = _KNOWN.get((kind, names))
    if known is None:
        known = _KNOWN[kind, names] = _inspect(kind, names)
    return known


# Constant to torch.compile, which does not trace through the inspection. This is what
# torch.compiler.assume_constant_result does; calling it imports the compiler, which takes as long
# as torch itself.
vars(_arguments)["_dynamo_marked_constant"] = True


def _inspect(kind: type, names: tuple[str, ...]) -> _Arguments:
    parameters = _parameters(kind)
    caches = any(one.name == "use_cache" for one in parameters)
    positions = tuple(range(len(names)))
    in_order: _Arguments = ("named" if caches else "in order", positions, (), caches)
    has_names = names != name_positions(len(names) + 1)[:-1]
    if {one.kind for one in parameters} == _ANYTHING and issubclass(kind, nn.Module):
        if not has_names:
            return "passed on", positions, (), False
        return "passed on", (), tuple(zip(names, positions, strict=True)), False
    taken = [one for one in parameters if one.name in names and one.kind in _BY_NAME]
    if not (has_names and taken):
        return in_order
    required = [p for p in parameters if p.default is Parameter.empty and p.kind not in _ANYTHING]
    if missing := [one.name for one in required if one not in taken]:
        raise _lacks(kind, missing, names)
    pairs = zip(taken, parameters, strict=False)
    leading = len(list(takewhile(lambda pair: pair[0] is pair[1], pairs)))
    leading = min(leading, sum(one.kind is Parameter.POSITIONAL_OR_KEYWORD for one in taken))
    first = tuple(names.index(one.name) for one in taken[:leading])
    if first == positions:
        return in_order
    rest = tuple((one.name, names.index(one.name)) for one in taken[leading:])
    return "named", first, rest, caches


def _parameters(kind: type) -> list[Parameter]:
    """Parameters of a model's `forward`, or of the call of what is no module, without `self`."""
    called = kind.forward if issubclass(kind, nn.Module) else kind.__call__
    try:
        return list(inspect.signature(called).parameters.values())[1:]
    except (TypeError, ValueError):  # compiled code has no signature
        return [Parameter("args", Parameter.VAR_POSITIONAL)]


def _lacks(kind: type, missing: Sequence[str], names: Sequence[str]) -> Mistake:
    return Mistake(
        Problem(
            "the model needs an argument that the batch does not have",
            found=f"tensors named {', '.join(names)}",
            expected=f"{kind.__name__}.forward needs {', '.join(missing)}",
            fix="name the tensors of the batch as the arguments of forward: a mapping from the "
            "DataLoader, or tw.Batch({...})",
        )
    )


@runtime_checkable
class _WithLogits(Protocol):
    """Output with several attributes, as those of transformers."""

    @property
    def logits(self) -> Tensor: ...


def outputs_of(given: object) -> Tensor:
    """Tensor of a model's output from which the loss is computed: the output itself, or its
    `logits` attribute or key, or of a tuple the first tensor that is no single number.

    Raises:
        Mistake: there is no such tensor.
    """
    if isinstance(given, Tensor):
        return given
    found = given.logits if isinstance(given, _WithLogits) else None
    if found is None and isinstance(given, Mapping):
        found = given.get("logits")
    if isinstance(given, tuple | list):
        found = next((one for one in given if isinstance(one, Tensor) and one.ndim), None)
    if isinstance(found, Tensor):
        return found
    parts = f" with {', '.join(map(str, given))}" if isinstance(given, Mapping) else ""
    raise Mistake(
        Problem(
            "the model's output has no tensor for the loss",
            found=f"{type(given).__name__}{parts}",
            expected="a tensor, an output with `logits`, or a tuple that begins with the tensor",
            fix="return the tensor from the model, or use a custom objective, "
            "a function of (model, batch) that returns tw.LossSum(sum, targets)",
        )
    )
