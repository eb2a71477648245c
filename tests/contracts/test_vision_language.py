"""The first stage of a vision-language model: trained, and judged beside itself."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("tokenizers")

from command import command, inside  # noqa: E402
from made_decoders import write_decoder_project  # noqa: E402
from made_pictures import write_pairs  # noqa: E402
from trainwright.core.files import read_json  # noqa: E402
from trainwright.data.base.inputs.caption_inputs import CaptionInputs  # noqa: E402
from trainwright.data.base.inputs.token_inputs import TokenInputs  # noqa: E402
from trainwright.data.base.table import ImageInputs  # noqa: E402
from trainwright.predictor.bundle import read_bundle  # noqa: E402

pytestmark = pytest.mark.torch

DATA = (
    "{kind: captions, path: pairs.csv, vocabulary: tokenizer, "
    "tokenizer: base/tokenizer.json, end: ' and '}"
)
IMAGE = "{kind: resnet, width: 4, blocks: [1, 1]}"
FIRST = f"""\
name: aligned
data: {DATA}
model: {{kind: vision_language, image: {IMAGE}, projector: {{grid: 2}},
        decoder: {{kind: gpt, architecture: base, context: 48}}}}
training: {{num_epochs: 4, batch_size: 8, freeze: {{image: always, decoder: always}},
           optimizer: {{learning_rate: 0.01}}, checkpointing: {{save_every_n_steps: 1}}}}
metric: {{name: perplexity, target: every_baseline, resamples: 100}}
slices: [{{column: image_group, min_rows: 1}}]
"""


def write_project(folder: Path) -> Path:
    write_decoder_project(folder)
    write_pairs(folder, 96)
    (folder / "aligned.yaml").write_text(FIRST)
    return folder


@pytest.fixture(scope="module")
def aligned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the first stage, trained."""
    folder = write_project(tmp_path_factory.mktemp("vision"))
    with inside(folder):
        ran = command("train", "aligned.yaml", "--run", "aligned")
    assert ran.code in (0, 3), ran.err
    return folder


def network_of(bundle: Path) -> torch.nn.Module:
    found: torch.nn.Module = read_bundle(bundle).scorer.network  # type: ignore[attr-defined]
    return found


def test_the_first_stage_trains_the_projector_alone(aligned: Path) -> None:
    from trainwright.model.gpt.gpt_family import GptFamily
    from trainwright.model.input_shape import TokenShape

    network = network_of(aligned / "runs/aligned/bundle")
    section = read_bundle(aligned / "runs/aligned/bundle").scorer.section  # type: ignore[attr-defined]
    with inside(aligned):
        decoder = GptFamily().read_files(section.decoder, aligned)
        fresh = GptFamily().build(decoder, TokenShape(288))
    own = network.get_submodule("decoder").state_dict()
    assert all(torch.equal(own[name], one) for name, one in fresh.state_dict().items())
    signals = (aligned / "runs/aligned/signals.jsonl").read_text().splitlines()
    first, last = (json.loads(line)["loss"] for line in (signals[0], signals[-1]))
    assert last < first
    plan = read_json(aligned / "runs/aligned/plan.json")
    assert plan["contract"]["model"]["decoder"]["base"]["weights"]


def test_it_is_judged_beside_itself_with_other_images(aligned: Path) -> None:
    whole = read_json(aligned / "runs/aligned/evaluation.json")
    found = whole["evaluation"]
    assert set(found["baselines"]) == {"dummy", "linear", "other_images"}
    gain = found["gains"]["other_images"]["perplexity"]
    assert gain["low"] <= gain["value"] <= gain["high"]
    model, other = (
        one["perplexity"]["value"] for one in (found["metrics"], found["baselines"]["other_images"])
    )
    assert gain["value"] == pytest.approx(model - other)
    (written,) = whole["questions"]
    assert written["name"] == "captions"
    assert set(written["metrics"]) == {"exact_match", "token_f1"}
    assert set(written["gains"]) == {"most_frequent_answer", "other_images"}
    with inside(aligned):
        ran = command("evaluate", "aligned", "pairs.csv", "--json")
        assert ran.code in (0, 3), ran.err
        assert "other_images" in ran.out
        assert command("report", "aligned").code == 0
    assert "other_images" in (aligned / "runs/aligned/report.html").read_text()


def test_no_caption_gets_an_equal_image_in_exchange() -> None:
    draw = np.random.default_rng(3)
    pixels = draw.integers(0, 256, (9, 1, 4, 4), dtype=np.uint8)
    rows = np.array([0, 1, 1, 2, 3, 4, 5, 5, 5, 6, 7, 8])
    text = TokenInputs(np.zeros(24, np.uint16), 2 * np.arange(12) + 1, np.ones(12, np.int64))
    inputs = CaptionInputs(ImageInputs(pixels, rows), text)
    other = inputs.other_images()
    assert sorted(other.tolist()) == list(range(12))
    assert (rows[other] != rows).all()
    (exchanged,) = inputs.counterfactuals().values()
    np.testing.assert_array_equal(exchanged.images.rows, rows[other])
    assert exchanged.texts is text
