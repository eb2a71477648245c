"""What a vision-language model takes from the bundle of an earlier run. Loading it needs torch."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, final

from pydantic import TypeAdapter, ValidationError

from trainwright.contract.sections.model import Model
from trainwright.contract.sections.model.dual_encoder import DualEncoder
from trainwright.contract.sections.model.resnet import ResNet
from trainwright.contract.sections.model.traits import ModelSection
from trainwright.contract.sections.model.vision_language import Taken, VisionLanguage
from trainwright.core.errors import Mistake, Problem
from trainwright.core.files import Json, hash_file, read_json
from trainwright.data.captions.caption_encoding import CaptionEncoding
from trainwright.tracking.run_folder import RunFolder, is_run_folder

if TYPE_CHECKING:
    from torch import Tensor, nn

_ARCHITECTURE, _FEATURES, _WEIGHTS = "network.json", "features.json", "network.safetensors"
_SECTION: TypeAdapter[Model] = TypeAdapter(Model)
START: Final = "model.start"
IMAGE_FROM: Final = "model.image_from"


@final
class EarlierRun(NamedTuple):
    """The bundle of an earlier run: its folder, the section of its model, the shape of its inputs
    and its encoding as JSON."""

    folder: Path
    section: ModelSection
    about: Json
    features: Json


def find_earlier(written: str, folder: Path, path: str) -> EarlierRun:
    """The bundle of a run, relative to the contract's `folder`; `path` is that of its key.

    Raises:
        Mistake: there is none of a network.
    """
    place = folder / Path(written).expanduser()
    bundle = RunFolder(place).bundle if is_run_folder(place) else place
    try:
        about = read_json(bundle / _ARCHITECTURE)
        section = _SECTION.validate_json(json.dumps(about["model"]))
        features = read_json(bundle / _FEATURES)
    except (OSError, ValueError, KeyError, TypeError, ValidationError) as error:
        said = (str(error).splitlines() or [repr(error)])[0]
        raise Mistake(
            Problem(
                "there is no bundle of an earlier run",
                path=path,
                found=f"{bundle}: {said:.200}",
                expected="the folder of a finished run, or of its bundle",
                fix="name such a folder, or train that run first",
            )
        ) from error
    return EarlierRun(bundle.resolve(), section, about, features)


def read_start(section: VisionLanguage, folder: Path) -> VisionLanguage:
    """The section with the shape of the stage before it, and what was found there.

    Raises:
        Mistake: that stage is no such model, or an adapter has no architecture to adapt.
    """
    earlier = find_earlier(section.start, folder, START)
    before, own = earlier.section, section.decoder
    if not isinstance(before, VisionLanguage):
        raise _other_kind(START, before, "a run of kind vision_language", "name such a run")
    decoder = before.decoder.model_copy(update={"adapter": own.adapter, "dropout": own.dropout})
    if own.has_adapter and decoder.base == "none":
        raise Mistake(
            Problem(
                "an adapter is named after the layers of an architecture, which there is none of",
                path="model.decoder.adapter",
                found="a decoder without architecture in the first stage",
                expected="a first stage with model.decoder.architecture",
                fix="remove adapter",
            )
        )
    text = CaptionEncoding.from_json(earlier.features).text
    taken = _taken("all", earlier, text.identity)
    return section.model_copy(
        update={
            "image": before.image,
            "projector": before.projector,
            "decoder": decoder,
            "taken": _same(section, taken, START),
        }
    )


def read_image_from(section: VisionLanguage, folder: Path) -> VisionLanguage:
    """The section with the image encoder of an earlier run.

    Raises:
        Mistake: that run has no such encoder.
    """
    earlier = find_earlier(section.image_from, folder, IMAGE_FROM)
    before = earlier.section
    image = before.image if isinstance(before, DualEncoder) else before
    if not isinstance(image, ResNet):
        raise _other_kind(
            IMAGE_FROM,
            before,
            "a run of kind resnet, or of a dual_encoder with one",
            "write model.image: {kind: pretrained, architecture: FOLDER} in its place",
        )
    taken = _same(section, _taken("image", earlier), IMAGE_FROM)
    return section.model_copy(update={"image": image, "taken": taken})


def read_earlier_weights(taken: Taken) -> dict[str, Tensor]:
    """The weights of an earlier run by name, those of an image encoder as it calls them itself.

    Raises:
        Mistake: the files were not read, or are others by now.
    """
    from safetensors.torch import load_file

    file = Path(taken.folder) / _WEIGHTS
    path = START if taken.part == "all" else IMAGE_FROM
    if not taken.folder or hash_file(file) != taken.weights:
        raise _changed(path, str(file), taken.weights)
    weights = load_file(file)
    if taken.part == "all":
        return weights
    of_tower = {name: one for name, one in weights.items() if name.startswith("image.")}
    return {name.removeprefix("image."): one for name, one in (of_tower or weights).items()}


def section_of_start(taken: Taken) -> VisionLanguage:
    """The section of the model of an earlier stage, as its bundle has it."""
    found = find_earlier(taken.folder, Path(), START).section
    assert isinstance(found, VisionLanguage), "the plan looked at it"
    return found


def fill_weights(module: nn.Module, weights: Mapping[str, Tensor], path: str) -> None:
    """Copy weights into a module, which may have fewer of them.

    Raises:
        Mistake: some are missing or of another shape.
    """
    own = module.state_dict()
    for name, tensor in own.items():
        found = weights.get(name)
        if found is None or found.shape != tensor.shape:
            shown = "none" if found is None else str(tuple(found.shape))
            raise Mistake(
                Problem(
                    "the weights of the earlier run are of another shape",
                    path=path,
                    found=f"{name}: {shown}",
                    expected=str(tuple(tensor.shape)),
                    fix="give images of the same channels, and the same tokens, as in that run",
                )
            )
    module.load_state_dict({name: weights[name] for name in own})


def _taken(part: str, earlier: EarlierRun, tokens: str = "") -> Taken:
    try:
        weights = hash_file(earlier.folder / _WEIGHTS)
    except OSError as error:
        path = START if part == "all" else IMAGE_FROM
        raise _changed(path, str(error), _WEIGHTS) from error
    return Taken.model_validate(
        {
            "part": part,
            "weights": weights,
            "tokens": tokens,
            "image_size": tuple(earlier.about["size"][1:]),
            "folder": str(earlier.folder),
        }
    )


def _same(section: VisionLanguage, taken: Taken, path: str) -> Taken:
    """What was found, which must be what the plan says, if there is one."""
    before = section.taken
    if before not in ("none", taken.model_copy(update={"folder": ""})):
        assert before != "none"
        raise _changed(path, taken.weights, before.weights)
    return taken


def _changed(path: str, found: str, expected: str) -> Mistake:
    return Mistake(
        Problem(
            "the files of the earlier run have changed",
            path=path,
            found=found,
            expected=f"weights of SHA-256 {expected}",
            fix="put its files back, or start a new run",
        )
    )


def _other_kind(path: str, found: ModelSection, expected: str, fix: str) -> Mistake:
    return Mistake(
        Problem(
            "the earlier run has another model",
            path=path,
            found=f"model.kind {found.kind}",
            expected=expected,
            fix=fix,
        )
    )
