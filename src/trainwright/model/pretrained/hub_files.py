"""Files of a base: a folder, or the cache of the hub."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, final

from trainwright.contract.sections.model.causal_lm import CausalLm
from trainwright.contract.sections.model.gpt import Gpt
from trainwright.contract.sections.model.pretrained import Base, Pretrained
from trainwright.core.errors import Mistake, Problem
from trainwright.core.files import Json, hash_file, hash_value
from trainwright.core.limits import MOST_LAYERS

BasedSection: TypeAlias = Pretrained | Gpt | CausalLm
"""Sections that name a base."""

PATH: Final = "model.architecture"
_CONFIG, _WEIGHTS = "config.json", "model.safetensors"
PREPROCESSOR: Final = "preprocessor_config.json"
_INDEX = f"{_WEIGHTS}.index.json"
_CARD = "README.md"
_ADAPTER = "adapter_config.json"
_PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")
_READ = (_CONFIG, PREPROCESSOR, _CARD, _ADAPTER, "*token*", "vocab*", "merges.txt", "*.model")
_TOKENIZERS = ("tokenizer.json", "vocab.txt", "vocab.json", "*.model")
_HUB_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")
_LICENCE = re.compile(r"^licen[sc]e:\s*[\"']?([\w.+ -]+?)[\"']?\s*$", re.M)
_MOST_CARD_BYTES = 2**20
_NEEDED: Final = (
    "a folder with config.json, weights as safetensors and a tokenizer "
    f"or, for images, {PREPROCESSOR}"
)
_SAFE: Final = f"{_WEIGHTS}, or {_INDEX} with its files"
_EXAMPLES: Final = {
    "texts": ("the classes of a text", "bert, roberta, distilbert or deberta-v2"),
    "images": ("the classes of an image", "vit, convnext, resnet or dinov2"),
    "tokens": ("the next token", "gpt_neox, phi, mistral or gemma"),
}

_UNUSED: Final = frozenset(
    {
        *("model_type", "auto_map", "num_labels", "id2label", "label2id", "problem_type"),
        # Kernels may be named that are code of the hub.
        *("attn_implementation", "_attn_implementation", "experts_implementation"),
        *("_attn_implementation_internal", "_experts_implementation", "quantization_config"),
        *("dtype", "torch_dtype"),
        # Another file of weights than the one whose hash is in the plan.
        "transformers_weights",
        # The form of the outputs.
        *("return_dict", "torchscript"),
    }
)
"""What a configuration says of labels, kernels, number formats and files: the plan decides these.
"""

_VARIABLE: Final = "TRAINWRIGHT_BASE"


@final
@dataclass(frozen=True, slots=True)
class BaseFolder:
    """Folder with the files of a base, and its commit in the hub."""

    path: Path
    commit: str = ""

    def config(self) -> Json:
        """`config.json`.

        Raises:
            Mistake: it is missing or no configuration.
        """
        file = self.path / _CONFIG
        if not file.is_file():
            raise unusable(f"there is no {_CONFIG} in the base", str(self.path), _NEEDED)
        config = _read_json(file)
        if not isinstance(config, dict) or not isinstance(config.get("model_type"), str):
            raise unusable(f"the {_CONFIG} of the base names no model_type", str(file), _NEEDED)
        # A folder of the machine that saved it.
        config.pop("_name_or_path", None)
        return config

    def preprocessor(self) -> Json:
        """`preprocessor_config.json`; empty if there is none.

        Raises:
            Mistake: it cannot be read.
        """
        file = self.path / PREPROCESSOR
        settings = _read_json(file) if file.is_file() else {}
        if not isinstance(settings, dict):
            raise unusable(f"the {PREPROCESSOR} of the base holds no settings", str(file), _NEEDED)
        return settings

    def weights_hash(self) -> str:
        """SHA-256 of the weights; of several files, of their hashes by name.

        Raises:
            Mistake: there are none as safetensors, or some are missing or damaged.
        """
        if (self.path / _ADAPTER).is_file():
            raise unusable(
                "the base is an adapter, whose weights belong to another base",
                _ADAPTER,
                _SAFE,
                "merge it into its base and save the whole, or name that base",
            )
        files = self.weight_files()
        for file in files:
            _check_whole(file)
        hashes = {file.name: hash_file(file) for file in files}
        return next(iter(hashes.values())) if len(hashes) == 1 else hash_value(hashes)

    def check_tied(self, head: str, embedding: str) -> None:
        """Check that a head which is tied to the embedding is the same tensor where the files have
        both: versions of transformers differ in which of two they read.

        Raises:
            Mistake: they differ.
        """
        import torch
        from safetensors import safe_open

        tensors = []
        for file in self.weight_files():
            with safe_open(file, framework="pt") as weights:
                names = {head, embedding} & set(weights.keys())
                tensors += [weights.get_tensor(name) for name in names]
        if len(tensors) == 2 and not torch.equal(*tensors):
            what = "tie_word_embeddings of the base is true, and its head is not its embedding"
            found, expected = f"{head} is not {embedding}", "one tensor for both"
            fix = (
                f"write tie_word_embeddings: false into its config.json, or save it without {head}"
            )
            raise unusable(what, found, expected, fix)

    def licence(self) -> str:
        """Licence in the head of the model card; empty if it states none."""
        card = self.path / _CARD
        if not card.is_file():
            return ""
        with card.open(encoding="utf-8", errors="replace") as stream:
            text = stream.read(_MOST_CARD_BYTES)
        head = text.split("\n---", 1)[0] if text.startswith("---") else ""
        found = _LICENCE.search(head)
        return found[1] if found else ""

    def check_tokenizer(self) -> None:
        """Check that there are files of a tokenizer: without any, transformers makes an empty one.

        Raises:
            Mistake: there are none.
        """
        if not any(found for name in _TOKENIZERS for found in self.path.glob(name)):
            raise unusable("the base has no tokenizer", str(self.path), ", ".join(_TOKENIZERS))

    def weight_files(self) -> list[Path]:
        """Files of the weights.

        Raises:
            Mistake: there are none as safetensors, or some are missing.
        """
        if (self.path / _WEIGHTS).is_file():
            return [self.path / _WEIGHTS]
        if (index := self.path / _INDEX).is_file():
            return self._shards(index)
        if pickles := sorted({one.name for kind in _PICKLES for one in self.path.glob(kind)}):
            raise unusable(
                "the weights of the base are pickles, which can run code when they are read",
                ", ".join(pickles),
                _SAFE,
                "convert them where you trust them: model.save_pretrained(folder) writes "
                "safetensors",
            )
        raise unusable(
            "the base has no weights",
            str(self.path),
            _SAFE,
            "save the model with its weights, or write model.weights: none",
        )

    def _shards(self, index: Path) -> list[Path]:
        try:
            names = sorted(
                set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise unusable(f"the {_INDEX} of the base cannot be read", str(error), _SAFE) from error
        if any(Path(name).name != name for name in names):
            raise unusable(
                f"the {_INDEX} of the base names files of other folders", str(index), _SAFE
            )
        if lost := [name for name in names if not (self.path / name).is_file()]:
            found = (
                f"{len(names) - len(lost)} of {len(names)} files; missing: {', '.join(lost[:5])}"
            )
            raise unusable(
                "weights of the base are missing", found, f"every file that {_INDEX} names"
            )
        return [self.path / name for name in names]


def _read_json(file: Path) -> Json:
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise unusable(
            f"the {file.name} of the base cannot be read", str(error), _NEEDED
        ) from error


def find_base(section: BasedSection, folder: Path) -> BaseFolder:
    """Files of a base: a folder relative to the contract's `folder`, or a model of the hub.

    Raises:
        Mistake: there is no such folder, or the hub cannot be reached and its cache lacks it.
    """
    name = section.architecture
    local = folder / Path(name).expanduser()
    if local.is_dir():
        return BaseFolder(local.resolve())
    if name.startswith(("/", ".", "~")) or not _HUB_NAME.fullmatch(name):
        raise unusable(
            "there is no such folder", str(local), f"{_NEEDED}, or the name of a hub's model"
        )
    return _of_hub(section)


def _of_hub(section: BasedSection) -> BaseFolder:
    from huggingface_hub import snapshot_download

    name, offline = section.architecture, is_offline()
    weights = () if section.weights == "none" else ("model*.safetensors", _INDEX)
    try:
        found = snapshot_download(
            name,
            revision=section.revision,
            allow_patterns=[*_READ, *weights],
            local_files_only=offline,
        )
    # The hub's client raises errors of its own, of its HTTP library and of the disk.
    except Exception as error:
        raise _not_found(section, error, offline) from error
    path = Path(found)
    return BaseFolder(path, path.name)


def is_offline() -> bool:
    """Is the hub switched off in the environment?"""
    said = (os.environ.get(name, "") for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"))
    return any(one.upper() in ("1", "ON", "YES", "TRUE") for one in said)


def _not_found(section: BasedSection, error: Exception, offline: bool) -> Mistake:
    name, said = section.architecture, (str(error).splitlines() or [repr(error)])[0]
    return Mistake(
        Problem(
            f"the base {name} is no folder and not in the local cache, and "
            + ("HF_HUB_OFFLINE switches the hub off" if offline else "the hub did not give it"),
            path=PATH,
            found=name if offline else f"{said:.200}",
            expected=f"{_NEEDED}, or a model in the cache of the hub",
            fix=f"hf download {name} while there is a connection, or name a local folder",
        )
    )


def _check_whole(file: Path) -> None:
    """Check the header of weights against the length of their file."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(file, framework="pt") as weights:
            if not weights.keys():
                raise unusable("the weights of the base are empty", file.name, _SAFE)
    except (SafetensorError, OSError, ValueError) as error:
        raise unusable(
            "the weights of the base are damaged", f"{file.name}: {error}", _SAFE
        ) from error


def unusable(what: str, found: str, expected: str, fix: str = "") -> Mistake:
    """Mistake of a base that cannot be used."""
    return Mistake(
        Problem(
            what,
            path=PATH,
            found=found,
            expected=expected,
            fix=fix or "download or save the base again, or name another one",
        )
    )


def check_layers(layers: int) -> None:
    """Refuse, with a Mistake, more layers than any base has."""
    if layers > MOST_LAYERS:
        what = "the config.json of the base has too many layers"
        raise unusable(what, f"{layers:,}", f"at most {MOST_LAYERS:,}")


def unfit(kind: str, error: Exception) -> Mistake:
    """Mistake of a configuration that its architecture refuses."""
    said = (str(error).splitlines() or [repr(error)])[0]
    return unusable(
        "the config.json of the base does not fit its architecture", f"{said:.200}", kind
    )


def classifier_class(reads: Literal["texts", "images", "tokens"]) -> Any:
    """What transformers calls a model with a head for classes of texts or images, or for the next
    token."""
    if reads == "tokens":
        from transformers import AutoModelForCausalLM

        return AutoModelForCausalLM
    if reads == "texts":
        from transformers import AutoModelForSequenceClassification

        return AutoModelForSequenceClassification
    from transformers import AutoModelForImageClassification

    return AutoModelForImageClassification


def known_config(config: Json, reads: Literal["texts", "images", "tokens"]) -> Any:
    """The configuration as transformers reads it, without code of its own.

    Raises:
        Mistake: transformers knows no such architecture, or it has no head for classes.
    """
    from transformers import AutoConfig
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    kind = config["model_type"]
    if kind not in CONFIG_MAPPING:
        own = "; it comes with code of its own, which is never run" if "auto_map" in config else ""
        raise unusable(
            f"transformers has no architecture {kind!r}{own}", kind, "a model_type it knows"
        )
    values = {key: value for key, value in config.items() if key not in _UNUSED}
    try:
        made = AutoConfig.for_model(kind, **values)
    # Configurations check their fields with exceptions of their own.
    except Exception as error:
        raise unfit(kind, error) from error
    if type(made) not in classifier_class(reads)._model_mapping:
        noun, examples = _EXAMPLES[reads]
        raise unusable(
            f"{kind} has no head for {noun}",
            ", ".join(config.get("architectures") or [kind]),
            f"an architecture with one, such as {examples}",
            f"name a model of {'texts' if reads == 'tokens' else reads}",
        )
    return made


def locate_base(section: BasedSection, base: Base, recorded: str) -> Base:
    """The base with the folder of its files: one of those that TRAINWRIGHT_BASE names, the
    `recorded` one, or what `architecture` names from here.

    Raises:
        Mistake: there is none, or it holds other weights.
    """
    named = [Path(one) for one in os.environ.get(_VARIABLE, "").split(os.pathsep) if one]
    expected = f"the files of {section.architecture} with weights of SHA-256 {base.weights}"
    fix = (
        f"set {_VARIABLE} to their folder, or merge the adapter where they are: "
        "trainwright weights merge RUN"
    )
    places = named or [_recorded_place(section, recorded)]
    there = [one for one in places if one.is_dir()]
    if not there:
        problem = "the base of this adapter is not on this machine"
        looked = ", ".join(map(str, places))
        raise Mistake(Problem(problem, found=looked, expected=expected, fix=fix))
    found = {place: BaseFolder(place).weights_hash() for place in there}
    for place, weights in found.items():
        if weights == base.weights:
            return base.model_copy(update={"folder": str(place)})
    problem = "the adapter belongs to another base"
    others = "; ".join(f"{place}: {weights}" for place, weights in found.items())
    raise Mistake(Problem(problem, found=others, expected=expected, fix=fix))


def _recorded_place(section: BasedSection, recorded: str) -> Path:
    place = Path(recorded or section.architecture)
    if place.is_dir():
        return place
    try:
        return find_base(section, Path()).path
    except Mistake:
        return place
