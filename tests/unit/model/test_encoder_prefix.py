"""Every weight of an encoder has to be there, whatever transformers calls the encoder."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch
import transformers
from safetensors.torch import load_file, save_file

from trainwright.contract.sections.model.pretrained import Base
from trainwright.core.errors import Mistake
from trainwright.model.pretrained.sequence_classifier import build_classifier, encoder_prefix

SIZES = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1}
SIZES |= {"num_attention_heads": 2}
IMAGE = {"image_size": 16, "patch_size": 8}


def write_clip(folder: Path) -> Base:
    """A CLIP of random weights, saved with both of its towers."""
    marks = {"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 1}
    config = transformers.CLIPConfig(
        vision_config={**SIZES, **IMAGE}, text_config={**SIZES, **marks, "vocab_size": 50}
    )
    transformers.CLIPModel(config).save_pretrained(folder)
    return Base(reads="images", config=config.to_json_string(), weights="0", folder=str(folder))


def test_the_encoder_of_images_of_a_clip_is_read(tmp_path: Path) -> None:
    base = write_clip(tmp_path / "clip")
    network = build_classifier(base, 3, is_new=False)
    assert encoder_prefix(network) == "vision_model."
    name = "vision_model.embeddings.patch_embedding.weight"
    saved = load_file(tmp_path / "clip" / "model.safetensors")
    torch.testing.assert_close(network.get_parameter(name).data, saved[name])


def test_one_that_lacks_a_weight_is_refused_and_not_drawn(tmp_path: Path) -> None:
    base = write_clip(tmp_path / "clip")
    file = tmp_path / "clip" / "model.safetensors"
    name = "vision_model.embeddings.patch_embedding.weight"
    saved = {key: value for key, value in load_file(file).items() if key != name}
    save_file(saved, file, metadata={"format": "pt"})
    with pytest.raises(Mistake, match="not those of its config") as refused:
        build_classifier(base, 3, is_new=False)
    assert name in str(refused.value)


def test_others_name_theirs_as_transformers_does() -> None:
    config = transformers.ViTConfig(**SIZES, **IMAGE)
    with torch.device("meta"):
        network = transformers.ViTForImageClassification(config)
    assert encoder_prefix(network) == "vit."
