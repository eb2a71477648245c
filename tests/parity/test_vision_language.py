"""Vision-language models beside a loop by hand that puts embeddings one behind another, and beside
the LLaVA of transformers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch.nn import functional  # noqa: E402

from made_decoders import LLAMA, write_decoder  # noqa: E402
from made_image_bases import DEVIATION, MEAN  # noqa: E402
from trainwright.contract.sections.data.images import Augment  # noqa: E402
from trainwright.contract.sections.model.gpt import Gpt  # noqa: E402
from trainwright.contract.sections.model.pretrained import Pretrained  # noqa: E402
from trainwright.contract.sections.model.resnet import ResNet  # noqa: E402
from trainwright.contract.sections.model.vision_language import (  # noqa: E402
    Projector,
    VisionLanguage,
)
from trainwright.data.base.inputs import ImageInputs  # noqa: E402
from trainwright.data.captions.caption_encoding import CaptionText  # noqa: E402
from trainwright.data.encoders.vocabulary import TextVocabulary  # noqa: E402
from trainwright.data.loading.augment import ImageDataset  # noqa: E402
from trainwright.data.loading.document_dataset import Trimmed  # noqa: E402
from trainwright.data.loading.pair_dataset import CaptionDataset  # noqa: E402
from trainwright.data.loading.pixel_rows import build_pixels  # noqa: E402
from trainwright.model.families import network_family  # noqa: E402
from trainwright.model.input_shape import CaptionShape  # noqa: E402
from trainwright.objective.classification_losses import CrossEntropyLoss  # noqa: E402
from trainwright.objective.losses import Supervised  # noqa: E402

pytestmark = pytest.mark.torch

CPU = torch.device("cpu")
SHAPE = CaptionShape((3, 12, 12), (120.0,) * 3, (60.0,) * 3, 256)


def captions(context: int) -> CaptionDataset:
    """Five images with captions of different lengths, the longest cut."""
    import polars as pl

    draw = np.random.default_rng(0)
    pixels = draw.integers(0, 256, (5, 3, 12, 12), dtype=np.uint8)
    text = CaptionText(TextVocabulary("bytes"), "\n", "\x1e", "caption", "asked")
    frame = pl.DataFrame(
        {
            "caption": ["a", "a red circle", "two", "nothing to be seen at all here", "b c"],
            "asked": ["", "what is it?", "how many", "", "which"],
        }
    )
    images = build_pixels(ImageInputs.of(pixels), CPU)
    store = ImageDataset(images, torch.zeros(5, dtype=torch.int64), Augment(), 0)
    return CaptionDataset(store, text.encode(frame), context, CPU)


@pytest.mark.parametrize("positions", ["rotary", "learned"])
def test_loss_and_gradients_are_those_of_a_loop_by_hand(positions: Any) -> None:
    """Of a padded micro-batch in fp64, where each row by hand is by itself, unpadded: the image
    tokens, then question, prompt, caption and end, of which the last two count."""
    section = VisionLanguage(
        kind="vision_language",
        image=ResNet(kind="resnet", width=8, blocks=(1, 1)),
        projector=Projector(grid=3, layers=2),
        decoder=Gpt(
            kind="gpt", layers=2, heads=2, width=16, context=32, positions=positions, bias="all"
        ),
    )
    torch.manual_seed(0)
    network = network_family(section).build(section, SHAPE).double()
    for parameter in network.parameters():
        if parameter.ndim > 1:
            parameter.data += 0.2 * torch.randn_like(parameter)
    store = captions(section.context_length)
    rows = np.array([3, 0, 4, 1, 2])
    batch = Trimmed(store.lengths, store.shapes, ("pixels",)).form(store.take(0, rows), rows)
    total, targets = Supervised(CrossEntropyLoss())(network, batch)
    (total / targets).backward()
    found = {name: one.grad.clone() for name, one in network.named_parameters()}
    network.zero_grad()

    count = sum(int(batch.mask.host[at].sum()) for at in range(5))
    assert count == targets == sum(store.count_targets(0, np.array([row])) for row in rows)
    summed = torch.zeros((), dtype=torch.float64)
    for at, row in enumerate(rows):
        length = int(store.lengths[row])
        tokens, pixels = batch["tokens"][at, :length], batch["pixels"][at : at + 1]
        summed = summed + by_hand(network, tokens, pixels, batch, at, length)
    (summed / count).backward()
    assert abs(summed.item() - total.item()) < 1e-9
    for name, one in network.named_parameters():
        assert float((one.grad - found[name]).abs().max()) < 1e-9, name


def by_hand(network: Any, tokens: Any, pixels: Any, batch: Any, at: int, length: int) -> Any:
    decoder = network.decoder
    states = network.image(pixels)
    places = torch.nn.functional.adaptive_avg_pool2d(states, 3).flatten(2).transpose(1, 2)
    first, second = network.projector.layers[0], network.projector.layers[2]
    image = second(functional.gelu(first(places)))
    x = torch.cat([image, decoder.embedding(tokens)[None]], dim=1)
    if decoder.learned:
        x = x + decoder.places.weight[: x.shape[1]]
    turn = (decoder.cosines[: x.shape[1]], decoder.sines[: x.shape[1]])
    for block in decoder.blocks:
        x = block(x, turn, "past")
    logits = functional.linear(decoder.norm(x), decoder.embedding.weight)[0, image.shape[1] :]
    counted = batch.mask.host[at, :length]
    target = batch["target"][at, :length]
    return functional.cross_entropy(logits[counted], target[counted], reduction="sum")


def test_image_tokens_are_means_of_areas() -> None:
    from trainwright.model.vision_language.vision_language_network import average_areas

    states = torch.randn(2, 3, 8, 12, generator=torch.Generator().manual_seed(0))
    for grid in (1, 2, 4):
        wanted = functional.adaptive_avg_pool2d(states, grid)
        assert (average_areas(states, grid) - wanted).abs().max() < 1e-6
    # Of places that an area shares with its neighbour, each has its share.
    line = torch.tensor([[1.0, 2.0, 4.0]]).view(1, 1, 1, 3).expand(1, 1, 2, 3)
    assert average_areas(line, 2)[0, 0, 0].tolist() == pytest.approx([4 / 3, 10 / 3])


def test_logits_are_those_of_llava(tmp_path: Path) -> None:
    """With the weights of a CLIP, a projector and a Llama of its own."""
    transformers = pytest.importorskip("transformers")
    vision = {
        "image_size": 16,
        "patch_size": 4,
        "hidden_size": 24,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 32,
    }
    torch.manual_seed(0)
    clip = transformers.CLIPConfig(
        vision_config=vision,
        text_config={"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2},
    )
    theirs_image = transformers.CLIPForImageClassification(clip)
    theirs_image.save_pretrained(tmp_path / "clip")
    settings = {
        "do_normalize": True,
        "do_rescale": True,
        "do_resize": True,
        "rescale_factor": 1 / 255,
        "image_mean": MEAN,
        "image_std": DEVIATION,
        "size": {"height": 16, "width": 16},
    }
    import json

    (tmp_path / "clip" / "preprocessor_config.json").write_text(json.dumps(settings))
    llama = {**LLAMA, "vocab_size": 131, "max_position_embeddings": 64}
    theirs_decoder = write_decoder("llama", llama, tmp_path / "llama")
    section = VisionLanguage(
        kind="vision_language",
        image=Pretrained(architecture="clip"),
        projector=Projector(grid=4),
        decoder=Gpt(kind="gpt", architecture="llama", context=48),
    )
    family = network_family(section)
    section = family.read_files(section, tmp_path)
    shape = CaptionShape((3, 16, 16), (0.0,) * 3, (1.0,) * 3, 131)
    network = family.build(section, shape).eval()
    config = transformers.LlavaConfig(
        vision_config=transformers.CLIPVisionConfig(**vision),
        text_config=theirs_decoder.config,
        image_token_index=130,
        vision_feature_layer=-1,
        vision_feature_select_strategy="default",
    )
    config._attn_implementation = "eager"
    llava = transformers.LlavaForConditionalGeneration(config).eval()
    of_llava = llava.model
    of_llava.vision_tower.load_state_dict(theirs_image.vision_model.state_dict())
    of_llava.language_model.load_state_dict(theirs_decoder.model.state_dict())
    llava.lm_head.load_state_dict(theirs_decoder.lm_head.state_dict())
    projector = of_llava.multi_modal_projector
    projector.linear_1.load_state_dict(network.projector.layers[0].state_dict())
    projector.linear_2.load_state_dict(network.projector.layers[2].state_dict())
    draw = torch.Generator().manual_seed(0)
    tokens = torch.randint(0, 130, (2, 11), generator=draw)
    pixels = torch.randint(0, 256, (2, 3, 16, 16), generator=draw, dtype=torch.uint8)
    mean, deviation = (torch.tensor(one).view(1, 3, 1, 1) for one in (MEAN, DEVIATION))
    with torch.no_grad():
        found = network(tokens, pixels)
        wanted = llava(
            input_ids=torch.cat([torch.full((2, 16), 130), tokens], dim=1),
            pixel_values=(pixels / 255 - mean) / deviation,
        ).logits[:, 16:]
    assert found.abs().max() > 0.1
    assert (found - wanted).abs().max() < 1e-5
