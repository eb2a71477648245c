"""Weights of decoders in the layout of Hugging Face. Loading them needs torch."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from trainwright.contract.sections.model.gpt import Gpt
from trainwright.contract.sections.model.pretrained import Base
from trainwright.core.errors import Mistake
from trainwright.model.gpt.decoder_config import section_of
from trainwright.model.pretrained.hub_files import BaseFolder, find_base, unusable
from trainwright.model.pretrained.task_problems import describe_base

if TYPE_CHECKING:
    from torch import Tensor, nn

PLACES = "transformer.wpe.weight"
"""Learned positions of a GPT-2."""

_EXPECTED = "every weight of its config.json"


class _Place(NamedTuple):
    """A tensor of ours: those of theirs that it joins along its outputs, and whether theirs lie
    with inputs first."""

    ours: str
    theirs: tuple[str, ...]
    transposed: bool = False


def read_decoder(section: Gpt, folder: Path) -> Gpt:
    """The section with what the files of its `architecture` say.

    Raises:
        Mistake: they are missing, or cannot be used. MissingExtra: what reads them is not
            installed.
    """
    found = find_base(section, folder)
    shaped, longest = section_of(section, found.config())
    base = describe_base(found, section, longest)
    if shaped.tied and base.weights:
        kind = "gpt2" if shaped.positions == "learned" else "llama"
        found.check_tied("lm_head.weight", next(_places(shaped, kind)).theirs[0])
    return shaped.model_copy(update={"base": base})


def load_decoder(network: nn.Module, section: Gpt) -> None:
    """Read the weights of the base into a network.

    Raises:
        Mistake: the files of the base were not read, or lack weights.
    """
    import torch

    if torch.get_default_device().type == "meta":
        return
    assert section.base != "none", "only asked of a decoder with a base"
    if not section.base.folder:
        raise unusable(
            "the files of the base were not read", section.architecture, "the folder of its files"
        )
    kind = json.loads(section.base.config)["model_type"]
    read = _reader(BaseFolder(Path(section.base.folder)), kind)
    own = network.state_dict()
    with torch.no_grad():
        for place in _places(section, kind):
            _fill(own[place.ours], place, read)


def _fill(mine: Tensor, place: _Place, read: Callable[[str], Tensor]) -> None:
    """Copy the parts of a tensor into it, one after another: no more than one of them is in memory
    beside it."""
    row = 0
    for name in place.theirs:
        part = read(name)
        part = part.T if place.transposed else part
        part = part[: len(mine)] if place.ours == "places.weight" else part
        end = row + len(part)
        if part.shape[1:] != mine.shape[1:] or end > len(mine):
            raise _of_another_shape(name, part, mine)
        mine[row:end].copy_(part)
        row = end
    if row != len(mine):
        raise _of_another_shape(place.theirs[-1], part, mine)


def _of_another_shape(name: str, part: Tensor, mine: Tensor) -> Mistake:
    return unusable(
        "the weights of the base are not those of its config.json",
        f"{name}: {tuple(part.shape)}",
        f"parts of {tuple(mine.shape)}",
    )


def foreign_weights(section: Gpt, kind: str, own: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The weights `own` under the names of an architecture of transformers; biases that it has and
    ours has not are 0."""
    import torch

    found: dict[str, Tensor] = {}
    for place in _places(section, kind):
        mine = own.get(place.ours)
        if mine is None:
            weight = own[place.ours.removesuffix("bias") + "weight"]
            mine = torch.zeros(weight.shape[0])
        parts = torch.split(mine, _sizes(section, place, len(mine)))
        for name, part in zip(place.theirs, parts, strict=True):
            found[name] = (part.T if place.transposed else part).contiguous()
    return found


def add_places(places: Tensor, base: Base) -> Tensor:
    """Learned positions with those of the base after them, which no window of the training had.

    Raises:
        Mistake: the base has none.
    """
    import torch

    read = _reader(BaseFolder(Path(base.folder)), "gpt2")
    return torch.cat([places, read(PLACES)[len(places) :].to(places)])


def _sizes(section: Gpt, place: _Place, rows: int) -> list[int]:
    """Rows of each part of a joined tensor."""
    if len(place.theirs) == 3:
        keys = section.key_heads * section.head_width
        return [section.heads * section.head_width, keys, keys]
    return [rows // len(place.theirs)] * len(place.theirs)


def _places(section: Gpt, kind: str) -> Iterator[_Place]:
    yield from _of_gpt2(section) if kind == "gpt2" else _of_llama(section)
    if not section.tied:
        yield _Place("head.weight", ("lm_head.weight",))


def _of_gpt2(section: Gpt) -> Iterator[_Place]:
    yield _Place("embedding.weight", ("transformer.wte.weight",))
    yield _Place("places.weight", (PLACES,))
    for number in range(section.layers):
        ours, theirs = f"blocks.{number}", f"transformer.h.{number}"
        for kind in ("weight", "bias"):
            for name, other in (
                ("before_attention", "ln_1"),
                ("queries_keys_values", "attn.c_attn"),
                ("attended", "attn.c_proj"),
                ("before_forward", "ln_2"),
                ("wide", "mlp.c_fc"),
                ("narrow", "mlp.c_proj"),
            ):
                turned = kind == "weight" and ".c_" in other
                yield _Place(f"{ours}.{name}.{kind}", (f"{theirs}.{other}.{kind}",), turned)
    for kind in ("weight", "bias"):
        yield _Place(f"norm.{kind}", (f"transformer.ln_f.{kind}",))


def _of_llama(section: Gpt) -> Iterator[_Place]:
    yield _Place("embedding.weight", ("model.embed_tokens.weight",))
    for number in range(section.layers):
        ours, theirs = f"blocks.{number}", f"model.layers.{number}"
        for kind in ("weight", "bias") if section.bias == "attention" else ("weight",):
            joined = tuple(f"{theirs}.self_attn.{one}_proj.{kind}" for one in "qkv")
            yield _Place(f"{ours}.queries_keys_values.{kind}", joined)
        gates = (f"{theirs}.mlp.gate_proj.weight", f"{theirs}.mlp.up_proj.weight")
        yield _Place(f"{ours}.wide.weight", gates)
        for name, other in (
            ("before_attention", "input_layernorm"),
            ("attended", "self_attn.o_proj"),
            ("before_forward", "post_attention_layernorm"),
            ("narrow", "mlp.down_proj"),
        ):
            yield _Place(f"{ours}.{name}.weight", (f"{theirs}.{other}.weight",))
    yield _Place("norm.weight", ("model.norm.weight",))


def _names(file: Path) -> list[str]:
    from safetensors import safe_open

    with safe_open(file, framework="pt") as weights:
        return list(weights.keys())


def _reader(base: BaseFolder, kind: str) -> Callable[[str], Tensor]:
    """Reads a weight by its name. A model without its head is saved without the first part of the
    names."""
    from safetensors import safe_open

    files = {name: file for file in base.weight_files() for name in _names(file)}
    prefix = "transformer." if kind == "gpt2" else "model."

    def read(name: str) -> Tensor:
        found = name if name in files else name.removeprefix(prefix)
        if found not in files:
            raise unusable("a weight of the base is missing", name, _EXPECTED)
        with safe_open(files[found], framework="pt") as weights:
            tensor: Tensor = weights.get_tensor(found)
        return tensor

    return read
