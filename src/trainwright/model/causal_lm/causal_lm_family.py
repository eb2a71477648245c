"""Family `causal_lm`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, final

from trainwright.contract.sections.model.adapter import Ia3
from trainwright.contract.sections.model.causal_lm import CausalLm
from trainwright.core.errors import Mistake, Problem
from trainwright.core.files import Json
from trainwright.core.lazy_imports import need_transformers
from trainwright.data.encoders.encoding import Encoding
from trainwright.data.encoders.vocabulary import TokenEncoding
from trainwright.model.family import HubLayout, LearningTask, NetworkFamily
from trainwright.model.gpt.gpt_family import token_problems
from trainwright.model.input_shape import Shape
from trainwright.model.pretrained.hub_files import (
    PATH,
    check_layers,
    find_base,
    locate_base,
    unfit,
    unusable,
)
from trainwright.model.pretrained.pretrained_family import PretrainedFamily
from trainwright.model.pretrained.task_problems import describe_base

if TYPE_CHECKING:
    from torch import nn

    from trainwright.model.count_network import NetworkCounts

_OF_BASES = PretrainedFamily()


@final
class CausalLmFamily(NetworkFamily[CausalLm]):
    """Causal language models of transformers, of any architecture."""

    def read_files(self, section: CausalLm, folder: Path, form: str = "tokens") -> CausalLm:  # noqa: ARG002
        """See `Family`."""
        need_transformers(PATH)
        from trainwright.model.causal_lm.causal_network import (
            map_tied_weights,
            position_count,
            try_abilities,
        )

        found = find_base(section, folder)
        config = json.dumps(found.config(), sort_keys=True)
        longest = position_count(config)
        base = describe_base(found, section, longest, "tokens")
        read = section.model_copy(update={"base": base})
        for head, embedding in map_tied_weights(config).items() if base.weights else ():
            found.check_tied(head, embedding)
        check_layers(read.block_count)
        if longest and section.context > longest:
            raise unusable(
                "the windows are longer than the positions of the base",
                f"model.context {section.context:,}",
                f"at most {longest:,}",
                "lower model.context, or name a base of longer windows",
            )
        if not try_abilities(config).is_causal:
            kind = found.config()["model_type"]
            raise unusable(
                f"{kind} sees the tokens that it should predict",
                kind,
                "an architecture whose attention is causal",
            )
        if read.has_adapter:
            from trainwright.model.causal_lm.causal_network import check_causal_targets

            check_causal_targets(read)
        return read

    def usual_training(self, section: CausalLm) -> Mapping[str, tuple[Json, str]]:
        """As of our decoder."""
        if not section.has_adapter:
            return {}
        if isinstance(section.adapter, Ia3):
            return {"learning_rate": (3e-3, "the usual rate of (IA)3")}
        return {"learning_rate": (2e-4, "the usual rate of an adapter")}

    def problems(self, section: CausalLm, task: LearningTask) -> Iterator[Problem]:
        """Packed documents must not see each other, and a fused loss has to know the head."""
        if not (task.is_packed or task.fuses_head):
            return
        from trainwright.model.causal_lm.causal_network import attention_window, try_abilities

        assert section.base != "none", "its files were read"
        config = section.base.config
        window, abilities = attention_window(config), try_abilities(config)
        kind = json.loads(config)["model_type"]
        if task.is_packed and (not abilities.packs or 0 < window < section.context):
            yield Problem(
                f"{kind} cannot keep the documents of a packed window apart",
                path="data.windows",
                found=f"packed, and a sliding window of {window:,} tokens" if window else "packed",
                expected="padded or across",
                fix="change it to padded",
            )
        if task.fuses_head and not abilities.fuses:
            yield Problem(
                f"{kind} does more after its last layer than a product with the head",
                path="training.memory.head_loss",
                found="fused",
                expected="separate: a bias of the head, or a limit or factor of the logits",
                fix="remove head_loss",
            )

    def encoding_problems(self, section: CausalLm, encoding: Encoding) -> Iterator[Problem]:
        """The embedding has a row for each token. Weights of a base need its tokenizer."""
        from trainwright.model.pretrained.sequence_classifier import vocabulary_size

        assert section.base != "none", "its files were read"
        rows = vocabulary_size(section.base, "tokens")
        tokens = TokenEncoding.of_kind(encoding)
        yield from token_problems(section.architecture, rows, section.base, tokens)

    def build(self, section: CausalLm, shape: Shape) -> nn.Module:
        """See `NetworkFamily`.

        Raises:
            Mistake: weights are wanted of a base whose files were not read.
        """
        import torch

        if torch.get_default_device().type == "meta":
            self._try_abilities(section)
            return self.build_empty(section, shape)
        if section.weights == "none":
            return self.build_empty(section, shape)
        assert section.base != "none", "its files were read"
        if not section.base.folder:
            raise unusable(
                "the files of the base were not read",
                section.architecture,
                "the folder of its files",
            )
        return _build(section, is_new=False)

    def _try_abilities(self, section: CausalLm) -> None:
        """Tried before a network is counted: what counts its calls would change the trial's, and
        what was tried is kept."""
        from trainwright.model.causal_lm.causal_network import try_abilities

        assert section.base != "none", "its files were read"
        try_abilities(section.base.config)

    def build_empty(self, section: CausalLm, _shape: Shape, /) -> nn.Module:
        """See `NetworkFamily`."""
        return _build(section, is_new=True)

    def with_base(self, section: CausalLm, recorded: Mapping[str, str]) -> CausalLm:
        """See `NetworkFamily`."""
        assert section.base != "none", "an adapter has a base"
        base = locate_base(section, section.base, recorded.get("", ""))
        return section.model_copy(update={"base": base})

    def _counts(self, section: CausalLm, shape: Shape) -> NetworkCounts:
        from trainwright.model.count_network import count_network

        assert section.base != "none", "its files were read"
        try:
            return count_network(self, section, shape)
        except Mistake:
            raise
        # Each architecture has its own way to refuse a size.
        except Exception as error:
            raise unfit(json.loads(section.base.config)["model_type"], error) from error

    def count_logits(self, section: CausalLm, _shape: Shape, /) -> int:
        """See `NetworkFamily`."""
        from trainwright.model.pretrained.sequence_classifier import vocabulary_size

        assert section.base != "none", "its files were read"
        return 2 * section.context * vocabulary_size(section.base, "tokens")

    def blocks(self, network: nn.Module) -> Iterable[nn.Module]:
        """Layers of the decoder."""
        return _OF_BASES.blocks(network.get_submodule("model"))

    def undecayed(self, network: nn.Module) -> Iterable[nn.Parameter]:
        """As of an encoder."""
        return _OF_BASES.undecayed(network)

    def hub_layout(self, section: CausalLm, network: nn.Module, /) -> HubLayout:
        """The model as transformers opens it, an adapter merged into it; weights that are tied
        stand there once."""
        if section.has_adapter:
            from trainwright.model.adapters.merge_adapter import merged

            network = merged(network)
        model = network.get_submodule("model")
        config = dict(model.config.to_dict())  # type: ignore[operator,union-attr]
        config.pop("_name_or_path", None)
        config |= {"architectures": [type(model).__name__], "dtype": "float32"}
        kept: dict[int, str] = {}
        state = model.state_dict()
        for name, tensor in state.items():
            kept.setdefault(tensor.data_ptr(), name)
        return HubLayout(config, {name: state[name].contiguous() for name in kept.values()})

    def count_layers(self, section: CausalLm) -> int:
        """Layers of the decoder."""
        return section.block_count


def _build(section: CausalLm, *, is_new: bool) -> nn.Module:
    from trainwright.model.causal_lm.causal_network import build_causal

    network = build_causal(section, is_new=is_new)
    if section.adapter != "none":
        from trainwright.model.causal_lm.causal_network import adapt_causal

        adapt_causal(network, section.adapter)
    return network
