"""Family `pretrained`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from trainwright.contract.sections.model.adapter import Ia3
from trainwright.contract.sections.model.pretrained import Base, Pretrained, count_layers_of
from trainwright.contract.sections.section import settled
from trainwright.core.errors import Mistake, Problem
from trainwright.core.files import Json, hash_bytes
from trainwright.core.lazy_imports import need_transformers
from trainwright.data.columns.target import Target
from trainwright.data.encoders.text_tokenizer import (
    NO_TOKENIZER,
    TextTokenizer,
    trial_rows,
    vocabulary_of,
)
from trainwright.model.adapters.need_peft import need_peft
from trainwright.model.family import HubLayout, LearningTask, NetworkFamily
from trainwright.model.input_shape import ImageShape, Shape
from trainwright.model.pretrained.hub_files import (
    PATH,
    PREPROCESSOR,
    BaseFolder,
    check_layers,
    find_base,
    locate_base,
    unfit,
    unusable,
)
from trainwright.model.pretrained.task_problems import problems_with_task

if TYPE_CHECKING:
    from torch import nn

    from trainwright.model.count_network import NetworkCounts

_USUAL_LENGTH = 512


@final
class PretrainedFamily(NetworkFamily[Pretrained]):
    """Models of transformers, with a head for a text or an image."""

    scorer_kind = "encoder"
    weights_file = "model.safetensors"

    def read_files(self, section: Pretrained, folder: Path, form: str = "table") -> Pretrained:
        """See `Family`."""
        need_transformers(PATH)
        if section.has_adapter:
            need_peft()
        found = find_base(section, folder)
        base = (_image_base if form == "images" else _text_base)(found, section)
        if section.base not in ("auto", base):
            raise unusable(
                "the files of the base have changed", found=str(found.path), expected="the same"
            )
        return section.model_copy(update={"base": base})

    def tokenizer(self, section: Pretrained) -> TextTokenizer:
        """See `Family`."""
        if section.base == "auto" or not section.base.tokenizer_json:
            return NO_TOKENIZER
        base = section.base
        return TextTokenizer(base.tokenizer_json, settled(section.max_length), base.pad)

    def image_size(self, section: Pretrained) -> tuple[int, ...]:
        """What its base names."""
        return () if section.base == "auto" else section.base.image_size

    def remarks(self, section: Pretrained) -> tuple[str, ...]:
        """What the base does not say of its images."""
        base = section.base
        if base == "auto" or base.reads == "texts" or base.image_mean:
            return ()
        return (
            f"{PREPROCESSOR} of the base names no mean and deviation: pixels are standardised by "
            "those of the training images",
        )

    def choices(self, section: Pretrained, task: LearningTask) -> Mapping[str, tuple[Json, str]]:
        """An output for each class, and the length of the base."""
        chosen: dict[str, tuple[Json, str]] = {
            "num_labels": (max(task.targets, task.classes), "as many as the data has")
        }
        if section.base != "auto" and section.base.reads == "texts":
            longest = section.base.longest
            usual = min(longest, _USUAL_LENGTH)
            chosen["max_length"] = (usual, f"the base allows {longest:,}")
        return chosen

    def usual_training(self, section: Pretrained) -> Mapping[str, tuple[Json, str]]:
        """Fine-tuning changes little, and is soon over (Devlin et al. 2019, arXiv:1810.04805,
        appendix A.3); of images it takes a few epochs more."""
        is_of_images = section.base != "auto" and section.base.reads == "images"
        noun = "a model of images" if is_of_images else "an encoder of texts"
        batch: tuple[Json, str] = (32, f"the usual batch of {noun}")
        if section.weights == "none":
            start = "a model of images" if is_of_images else "an encoder"
            rate: tuple[Json, str] = (5e-4, f"the usual start of {start} from random weights")
            return {"batch_size": batch, "learning_rate": rate}
        if section.has_adapter:
            return {
                "batch_size": batch,
                "num_epochs": (5, "an adapter takes more epochs than its base would"),
                "learning_rate": (3e-3, "the usual rate of (IA)3")
                if isinstance(section.adapter, Ia3)
                else (5e-4, "the usual rate of an adapter"),
            }
        return {
            "batch_size": batch,
            "num_epochs": (5 if is_of_images else 3, "the usual length of a fine-tuning"),
            "learning_rate": (5e-5, "the usual rate of a fine-tuning"),
        }

    def problems(self, section: Pretrained, task: LearningTask) -> Iterator[Problem]:
        """The head has an output for each class, and the table one text or a pair of them."""
        yield from problems_with_task(section, task)

    def build(self, section: Pretrained, shape: Shape) -> nn.Module:
        """See `NetworkFamily`.

        Raises:
            Mistake: weights are wanted of a base whose files were not read.
        """
        import torch

        base = settled(section.base)
        if section.weights == "none" or torch.get_default_device().type == "meta":
            return self.build_empty(section, shape)
        if not base.folder:
            raise unusable(
                "the files of the base were not read",
                section.architecture,
                "the folder of its files",
            )
        return _adapted(_build(base, shape, is_new=False), section)

    def build_empty(self, section: Pretrained, shape: Shape) -> nn.Module:
        """See `NetworkFamily`."""
        return _adapted(_build(settled(section.base), shape, is_new=True), section)

    def with_base(self, section: Pretrained, recorded: Mapping[str, str]) -> Pretrained:
        """See `NetworkFamily`."""
        base = locate_base(section, settled(section.base), recorded.get("", ""))
        return section.model_copy(update={"base": base})

    def head_names(self, network: nn.Module) -> frozenset[str]:
        """Those beside the encoder."""
        from trainwright.model.pretrained.encoder_adapter import names_of_head

        return names_of_head(network)

    def head(self, network: nn.Module) -> nn.Linear | None:
        """The layer of the outputs; None where it reads every token, as that of a causal model."""
        from trainwright.model.pretrained.sequence_classifier import output_layer

        return output_layer(network)

    def hub_layout(self, section: Pretrained, network: nn.Module) -> HubLayout | None:
        """The encoder with the adapter merged into it; the bundle of one without is such a folder
        itself."""
        if section.adapter == "none":
            return None
        from trainwright.model.adapters.merge_adapter import merged

        config = {**_configuration(network), "architectures": [type(network).__name__]}
        return HubLayout(config, merged(network).state_dict())

    def blocks(self, network: nn.Module) -> Iterable[nn.Module]:
        """The layers of the encoder, of all its stages: the modules of one class that stand in
        lists and are as many as its configuration says, else its longest list of one class."""
        from torch.nn import ModuleList, Sequential

        lists = [one for one in network.modules() if isinstance(one, ModuleList | Sequential)]
        alike = [one for one in lists if len(set(map(type, one))) == 1]
        members: dict[type, list[nn.Module]] = {}
        for one in alike:
            members.setdefault(type(one[0]), []).extend(one)
        wanted = count_layers_of(_configuration(network))
        layers = [found for found in members.values() if len(found) == wanted]
        own = [list(one) for one in alike if isinstance(one, ModuleList)]
        return max(layers, key=_weights_in, default=max(own, key=len, default=[]))

    def undecayed(self, network: nn.Module) -> Iterable[nn.Parameter]:
        """Tokens and positions that are parameters of their own, [1, N, D]: embeddings, however
        they are written."""
        for module in network.modules():
            if not type(module).__module__.startswith("torch."):
                own = module.parameters(recurse=False)
                yield from (one for one in own if one.ndim > 2 and one.shape[0] == 1)

    def count_layers(self, section: Pretrained) -> int:
        """Layers of the encoder."""
        return section.block_count

    def bundle_kind(self, shape: Shape) -> str:
        """See `NetworkFamily`."""
        return "image_encoder" if isinstance(shape, ImageShape) else self.scorer_kind

    def describe_files(
        self, network: nn.Module, shape: Shape, target: Target
    ) -> Mapping[str, Mapping[str, Json]]:
        """`config.json`, with the names of the classes or of several targets, and for images
        `preprocessor_config.json`, as transformers reads them."""
        config = _configuration(network)
        # The folder of the base is this machine's; the plan says which base it was.
        config.pop("_name_or_path", None)
        config |= {"architectures": [type(network).__name__], "dtype": "float32"}
        if names := target.classes or target.target_names:
            config["id2label"] = {str(code): name for code, name in enumerate(names)}
            config["label2id"] = {name: code for code, name in enumerate(names)}
        if target.target_names:
            of_labels = target.task == "multilabel"
            config["problem_type"] = "multi_label_classification" if of_labels else "regression"
        if not isinstance(shape, ImageShape):
            return {"config.json": config}
        from trainwright.model.pretrained.image_classifier import describe_pixels

        return {"config.json": config, PREPROCESSOR: describe_pixels(network, shape)}

    def _counts(self, section: Pretrained, shape: Shape) -> NetworkCounts:
        from trainwright.model.count_network import call_in_order, count_network
        from trainwright.model.pretrained.sequence_classifier import call_texts

        call = call_in_order if isinstance(shape, ImageShape) else call_texts
        base = settled(section.base)
        config = json.loads(base.config)
        # The head of a BART or a T5 reads the output of the end token.
        end = config.get("eos_token_id") if base.reads == "texts" else 0
        filling = end if isinstance(end, int) else 0
        try:
            return count_network(self, section, shape, call, filling)
        except Mistake:
            raise
        # Each architecture has its own way to refuse a size.
        except Exception as error:
            if isinstance(shape, ImageShape):
                raise _other_size(base, shape, error) from error
            raise unfit(config["model_type"], error) from error


def _text_base(found: BaseFolder, section: Pretrained) -> Base:
    """What the files of an encoder of texts hold."""
    from trainwright.model.pretrained.sequence_classifier import (
        position_limit,
        read_tokenizer,
        try_rows,
        vocabulary_size,
    )

    found.check_tokenizer()
    content, pad, longest = read_tokenizer(str(found.path))
    base = Base(
        config=json.dumps(found.config(), sort_keys=True),
        weights="" if section.weights == "none" else found.weights_hash(),
        tokenizer=hash_bytes(content.encode()),
        pad=pad,
        longest=longest or _USUAL_LENGTH,
        licence=found.licence(),
        commit=found.commit,
        folder=str(found.path),
        tokenizer_json=content,
    )
    check_layers(section.model_copy(update={"base": base}).block_count)
    _check_tokens(content, vocabulary_size(base))
    try_rows(base)
    limits = [one for one in (longest, position_limit(base)) if one]
    return base.model_copy(update={"longest": min(limits, default=_USUAL_LENGTH)})


def _image_base(found: BaseFolder, section: Pretrained) -> Base:
    """What the files of a model of images hold."""
    from trainwright.model.pretrained.image_classifier import image_settings

    base = Base(
        reads="images",
        config=json.dumps(found.config(), sort_keys=True),
        weights="" if section.weights == "none" else found.weights_hash(),
        licence=found.licence(),
        commit=found.commit,
        folder=str(found.path),
    )
    check_layers(section.model_copy(update={"base": base}).block_count)
    return base.model_copy(update=image_settings(base, found.preprocessor()))


def _build(base: Base, shape: Shape, *, is_new: bool) -> nn.Module:
    need_transformers(PATH)
    if isinstance(shape, ImageShape):
        from trainwright.model.pretrained.image_classifier import build_image_classifier

        return build_image_classifier(base, shape, is_new=is_new)
    from trainwright.model.pretrained.sequence_classifier import build_classifier

    return build_classifier(base, shape.outputs, is_new=is_new)


def _adapted(network: nn.Module, section: Pretrained) -> nn.Module:
    if section.adapter == "none":
        return network
    from trainwright.model.pretrained.encoder_adapter import adapt_encoder

    return adapt_encoder(network, section.adapter)


def _configuration(network: nn.Module) -> dict[str, Any]:
    config: dict[str, Any] = network.config.to_dict()  # type: ignore[operator,union-attr]
    return config


def _weights_in(modules: Sequence[nn.Module]) -> int:
    return sum(one.numel() for module in modules for one in module.parameters())


def _other_size(base: Base, shape: ImageShape, error: Exception) -> Mistake:
    said = (str(error).splitlines() or [repr(error)])[0]
    _, height, width = shape.size
    known = f"{' x '.join(map(str, base.image_size))} pixels" if base.image_size else "another size"
    return Mistake(
        Problem(
            "the base reads no images of this size",
            path="data.decoding.size",
            found=f"{height} x {width} ({said:.200})",
            expected=known,
            fix="remove data.decoding.size",
        )
    )


def _check_tokens(content: str, known: int) -> None:
    """Check a tokenizer against the embeddings of its model, and that it can be used."""
    expected = "a tokenizer of the same model"
    tokens = vocabulary_of(content)
    if 0 < known < tokens:
        raise unusable(
            "the tokenizer of the base has tokens that its model does not know",
            f"{tokens:,} tokens, {known:,} embeddings",
            expected,
        )
    try:
        rows = trial_rows(content)
    except ValueError as error:
        raise unusable("the tokenizer of the base cannot be used", str(error), expected) from error
    if any(
        row.type_ids != sorted(row.type_ids) or max(row.type_ids, default=0) > 1 for row in rows
    ):
        raise unusable(
            "the tokenizer of the base gives segments other than a first and a second",
            str(rows[-1].type_ids),
            expected,
        )
    highest = max((token for row in rows for token in row.ids), default=0)
    if highest >= tokens:
        raise unusable(
            "the tokenizer of the base gives tokens that its vocabulary lacks",
            f"{highest:,} of {tokens:,}",
            expected,
        )
