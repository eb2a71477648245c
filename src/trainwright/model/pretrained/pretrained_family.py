"""Family `pretrained`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, final

from trainwright.contract.sections.model.pretrained import Base, Pretrained
from trainwright.contract.sections.section import settled
from trainwright.core.errors import Problem
from trainwright.core.files import Json
from trainwright.core.formatting import many
from trainwright.core.hashing import hash_bytes
from trainwright.core.limits import MOST_LAYERS
from trainwright.core.optional_dependencies import need_transformers
from trainwright.data.encoders.text_tokenizer import (
    NO_TOKENIZER,
    TextTokenizer,
    special_tokens,
    trial_rows,
    vocabulary_of,
)
from trainwright.model.family import LearningTask, NetworkFamily
from trainwright.model.input_shape import Shape
from trainwright.model.pretrained.hub_files import PATH, find_base, unusable

if TYPE_CHECKING:
    from torch import nn

_USUAL_LENGTH = 512
_MOST_TEXTS = 2


@final
class PretrainedFamily(NetworkFamily[Pretrained]):
    """Encoders of transformers, with a head for a text."""

    scorer_kind = "encoder"
    weights_file = "model.safetensors"

    def read_files(self, section: Pretrained, folder: Path) -> Pretrained:
        """See `Family`."""
        need_transformers(PATH)
        from trainwright.model.pretrained.sequence_classifier import (
            position_limit,
            read_tokenizer,
            vocabulary_size,
        )

        found = find_base(section, folder)
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
        _check_layers(section.model_copy(update={"base": base}).block_count)
        _check_tokens(content, vocabulary_size(base))
        limits = [one for one in (longest, position_limit(base)) if one]
        base = base.model_copy(update={"longest": min(limits, default=_USUAL_LENGTH)})
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

    def choices(self, section: Pretrained, task: LearningTask) -> Mapping[str, tuple[Json, str]]:
        """An output for each class, and the length of the base."""
        chosen: dict[str, tuple[Json, str]] = {
            "num_labels": (max(1, task.classes), "as many as the data has")
        }
        if section.base != "auto":
            longest = section.base.longest
            usual = min(longest, _USUAL_LENGTH)
            chosen["max_length"] = (usual, f"the base allows {longest:,}")
        return chosen

    def usual_training(self, section: Pretrained) -> Mapping[str, tuple[Json, str]]:
        """Fine-tuning changes little, and is soon over (Devlin et al. 2019, arXiv:1810.04805,
        appendix A.3)."""
        batch: tuple[Json, str] = (32, "the usual batch of an encoder of texts")
        if section.weights == "none":
            rate: tuple[Json, str] = (5e-4, "the usual start of an encoder from random weights")
            return {"batch_size": batch, "learning_rate": rate}
        return {
            "batch_size": batch,
            "num_epochs": (3, "the usual length of a fine-tuning"),
            "learning_rate": (5e-5, "the usual rate of a fine-tuning"),
        }

    def problems(self, section: Pretrained, task: LearningTask) -> Iterator[Problem]:
        """The head has an output for each class, and the table one text or a pair of them."""
        yield from _label_problems(section, task)
        yield from _column_problems(task)
        yield from _length_problems(section, task)

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
        need_transformers(PATH)
        from trainwright.model.pretrained.sequence_classifier import build_classifier

        return build_classifier(base, shape.outputs, is_new=False)

    def build_empty(self, section: Pretrained, shape: Shape) -> nn.Module:
        """See `NetworkFamily`."""
        need_transformers(PATH)
        from trainwright.model.pretrained.sequence_classifier import build_classifier

        return build_classifier(settled(section.base), shape.outputs, is_new=True)

    def blocks(self, network: nn.Module) -> Iterable[nn.Module]:
        """The layers of the encoder: its longest list of modules of one class."""
        from torch.nn import ModuleList

        lists = [one for one in network.modules() if isinstance(one, ModuleList)]
        alike = [list(one) for one in lists if len(set(map(type, one))) == 1]
        return max(alike, key=len, default=[])

    def count_layers(self, section: Pretrained) -> int:
        """Layers of the encoder."""
        return section.block_count

    def describe_files(
        self, network: nn.Module, classes: Sequence[str]
    ) -> Mapping[str, Mapping[str, Json]]:
        """`config.json`, with the names of the classes, as transformers reads it."""
        config = network.config.to_dict()  # type: ignore[operator,union-attr]
        # The folder of the base is this machine's; the plan says which base it was.
        config.pop("_name_or_path", None)
        config |= {"architectures": [type(network).__name__], "dtype": "float32"}
        if classes:
            config["id2label"] = {str(code): name for code, name in enumerate(classes)}
            config["label2id"] = {name: code for code, name in enumerate(classes)}
        return {"config.json": config}


def _check_layers(layers: int) -> None:
    if layers > MOST_LAYERS:
        raise unusable(
            "the config.json of the base has too many layers",
            f"{layers:,}",
            f"at most {MOST_LAYERS:,}",
        )


def _check_tokens(content: str, known: int) -> None:
    """Check a tokenizer against the embeddings of its model, and that it can be used."""
    expected = "a tokenizer of the same model"
    tokens = vocabulary_of(content)
    if tokens > known:
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


def _length_problems(section: Pretrained, task: LearningTask) -> Iterator[Problem]:
    base, length = section.base, settled(section.max_length)
    if base == "auto":
        return
    longest = base.longest
    if length > longest:
        yield Problem(
            "the rows are longer than the base reads",
            path="model.max_length",
            found=f"{length:,}",
            expected=f"at most {longest:,} tokens",
            fix=f"change it to {longest}, or remove it",
        )
    if not base.tokenizer_json:
        return
    texts = sum(kind == "text" for kind in task.columns.values())
    special = special_tokens(base.tokenizer_json, is_paired=texts > 1)
    if length <= special:
        yield Problem(
            "the special tokens of the base leave no room for a text",
            path="model.max_length",
            found=f"{length:,}, of which {special:,} are special",
            expected=f"at least {special + 1:,} tokens",
            fix="raise it, or remove it",
        )


def _label_problems(section: Pretrained, task: LearningTask) -> Iterator[Problem]:
    wanted = task.classes if task.task == "classification" else 1
    if section.num_labels != wanted:
        has = f"the target has {many(wanted, 'class')}" if wanted > 1 else "the target is a number"
        yield Problem(
            f"the model has {section.num_labels} labels, but {has}",
            path="model.num_labels",
            found=str(section.num_labels),
            expected=str(wanted),
            fix=f"change it to {wanted}, or remove it",
        )


def _column_problems(task: LearningTask) -> Iterator[Problem]:
    texts = [name for name, kind in task.columns.items() if kind == "text"]
    others = [name for name, kind in task.columns.items() if kind != "text"]
    if not texts or len(texts) > _MOST_TEXTS:
        yield Problem(
            "an encoder of texts needs one column of texts, or two that form a pair",
            path="data.exclude" if texts else "data.columns",
            found=", ".join(texts) or f"no text among {', '.join(others) or 'the columns'}",
            expected="one or two columns of kind: text",
            fix="write data.columns: {NAME: {kind: text}} for the text"
            if not texts
            else f"exclude as well: {', '.join(texts[1:])}",
        )
    elif others:
        yield Problem(
            "an encoder of texts reads no other columns",
            path="data.exclude",
            found=", ".join(others),
            expected="columns of texts alone",
            fix=f"exclude as well: {', '.join(others)}",
        )
