"""A vision-language model: trained, judged beside itself, asked, and refused."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("tokenizers")

from canary import Killed  # noqa: E402
from command import command, inside  # noqa: E402
from contract_runs import bits, train  # noqa: E402
from made_decoders import write_decoder_project  # noqa: E402
from made_pictures import write_pairs  # noqa: E402
from trainwright.core.errors import Mistake  # noqa: E402
from trainwright.core.files import read_json  # noqa: E402
from trainwright.data.base.inputs import ImageInputs  # noqa: E402
from trainwright.data.base.pair_inputs import CaptionInputs  # noqa: E402
from trainwright.data.base.token_inputs import TokenInputs  # noqa: E402
from trainwright.predictor.bundle import read_bundle  # noqa: E402

pytestmark = pytest.mark.torch

DATA = (
    "{kind: captions, path: pairs.csv, vocabulary: tokenizer, "
    "tokenizer: base/tokenizer.json, end: ' and ', validation: 0.1, test: 0.3}"
)
IMAGE = "{kind: resnet, width: 4, blocks: [1, 1]}"
FIRST = f"""\
name: aligned
data: {DATA}
model: {{kind: vision_language, image: {IMAGE}, projector: {{grid: 2}},
        decoder: {{kind: gpt, architecture: base, context: 48}}}}
training: {{num_epochs: 3, batch_size: 8, freeze: {{image: always, decoder: always}},
           optimizer: {{learning_rate: 0.03}}}}
metric: {{name: perplexity, target: every_baseline, resamples: 100}}
slices: [{{column: image_group, min_rows: 1}}]
"""
SECOND = f"""\
name: tuned
data: {DATA}
model: {{kind: vision_language, start: runs/aligned,
        decoder: {{kind: gpt, adapter: {{kind: lora, rank: 4}}}}}}
training: {{num_epochs: 1, batch_size: 8, freeze: {{image: always}},
           optimizer: {{learning_rate: 0.005}}}}
metric: {{name: perplexity, target: every_baseline, resamples: 100}}
"""


THIRD = f"""\
name: whole
data: {DATA}
model: {{kind: vision_language, start: runs/tuned}}
training: {{num_epochs: 2, batch_size: 8, optimizer: {{learning_rate: 0.001,
           learning_rate_factors: {{image: 0.1}}}}}}
metric: {{name: bits_per_byte, target: dummy, resamples: 100}}
"""


def write_project(folder: Path) -> Path:
    write_decoder_project(folder)
    write_pairs(folder, 48)
    for name, text in (("aligned", FIRST), ("tuned", SECOND), ("whole", THIRD)):
        (folder / f"{name}.yaml").write_text(text)
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
    losses = [json.loads(line)["loss"] for line in signals]
    assert np.mean(losses[-4:]) < np.mean(losses[:4])
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


@pytest.mark.extended
def test_a_caption_is_scored_alone_as_among_others(aligned: Path) -> None:
    """Each caption by itself, in one batch, and by a forward pass over its whole text."""
    predictor = read_bundle(aligned / "runs/aligned/bundle")
    run = train(aligned / "aligned.yaml", "scored", "training.num_epochs=1")
    inputs = CaptionInputs.of_kind(run.ready.prepared.test.inputs)
    whole = predictor.score(inputs)[:, 0]
    network = predictor.scorer.network  # type: ignore[attr-defined]
    for row in range(len(inputs)):
        one = inputs.take(np.array([row]))
        assert predictor.score(one)[0, 0] == pytest.approx(whole[row], abs=1e-4)
        start, length = int(one.texts.starts[0]), int(one.texts.lengths[0])
        begin = int(one.texts.documents[one.texts.owners()[0]])
        text = torch.from_numpy(one.texts.tokens[begin : start + length].astype(np.int64))[None]
        with torch.no_grad():
            logits = network(text[:, :-1], torch.from_numpy(one.images.copied()))
        logs = logits.log_softmax(dim=-1)[0].gather(1, text[0, 1:, None])[:, 0]
        assert float(-logs[-length:].sum()) == pytest.approx(whole[row], abs=1e-4)


@pytest.mark.extended
def test_captions_are_written_greedily_as_by_whole_passes(aligned: Path) -> None:
    with inside(aligned):
        words = ("generate", "aligned", "shown/01.png", "--temperature", "0", "--tokens", "6")
        ran = command(*words, "--json")
        assert ran.code == 0, ran.err
        one = json.loads(ran.out)
        many = command("generate", "aligned", "--from", "pairs.csv", *words[3:])
        assert many.code == 0, many.err
        ran = command("generate", "aligned", "--from", "shown", "-o", "out.jsonl", *words[3:])
        assert ran.code == 0, ran.err
    lines = [json.loads(line) for line in many.out.splitlines()]
    assert len(lines) == 48
    assert lines[1]["text"] == one["text"]
    assert len((aligned / "out.jsonl").read_text().splitlines()) == 48
    predictor = read_bundle(aligned / "runs/aligned/bundle")
    text, network = predictor.features.text, predictor.scorer.network  # type: ignore[attr-defined]
    from PIL import Image

    pixels = np.asarray(Image.open(aligned / "shown/01.png").convert("RGB")).transpose(2, 0, 1)
    history = text.ask("").astype(np.int64).tolist()
    for _ in range(one["tokens"]):
        with torch.no_grad():
            logits = network(torch.tensor([history]), torch.from_numpy(pixels[None].copy()))
        history.append(int(logits[0, -1].argmax()))
    written = text.words.decode(np.array(history[len(text.ask("")) :], np.uint16))
    assert written.startswith(one["text"])


@pytest.fixture(scope="module")
def tuned(aligned: Path) -> Path:
    """The same with the second stage."""
    pytest.importorskip("peft")
    with inside(aligned):
        ran = command("train", "tuned.yaml", "--run", "tuned")
    assert ran.code in (0, 3), ran.err
    return aligned


def some_inputs() -> tuple[torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(1)
    tokens = torch.randint(0, 280, (3, 9), generator=draw)
    return tokens, torch.randint(0, 256, (3, 3, 8, 8), generator=draw, dtype=torch.uint8)


@pytest.mark.extended
def test_later_stages_start_where_the_earlier_ones_ended(tuned: Path) -> None:
    """The second from the first with an adapter that does nothing yet, the third from the second
    with its adapter merged; each bundle is read without the files that it came from."""
    tokens, pixels = some_inputs()
    names = {"tuned": "aligned", "whole": "tuned"}
    for name, before in names.items():
        with inside(tuned):
            run = train(tuned / f"{name}.yaml", f"start-of-{name}", "training.num_epochs=1")
            from trainwright.model.families import network_family
            from trainwright.model.input_shape import shape_of

            section = run.ready.plan.contract.model
            fresh = network_family(section).build(section, shape_of(run.ready.prepared)).eval()
        earlier = network_of(tuned / f"runs/{before}/bundle")
        with torch.no_grad():
            found, wanted = fresh(tokens, pixels), earlier(tokens, pixels)
        assert (found - wanted).abs().max() < 1e-4, name
    moved = tuned.parent / "alone"
    shutil.copytree(tuned / "runs/tuned/bundle", moved)
    assert torch.equal(network_of(moved)(tokens, pixels), earlier(tokens, pixels))


@pytest.mark.parametrize("stage", ["aligned", pytest.param("tuned", marks=pytest.mark.extended)])
def test_a_run_cut_anywhere_has_the_same_bits(
    stage: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """With dropout, augmentation and two micro-batches a step."""
    folder = request.getfixturevalue(stage)
    shutil.copytree(folder, tmp_path / "all", ignore=shutil.ignore_patterns("cut*", "start*"))
    contract = tmp_path / "all" / f"{stage}.yaml"
    settings = (
        "training.num_epochs=1",
        "training.batch_size=4",
        "training.gradient_accumulation_steps=2",
        "training.checkpointing={save_every_n_steps: 1}",
        "data.augment={crop: 1, flip: true}",
        "data.num_workers=0",
        "model.decoder.dropout=0.1",
    )
    with inside(contract.parent):
        whole = train(contract, "whole-run", *settings)
        steps = len(whole.signals["loss"])
        with pytest.raises(Killed):
            train(contract, "cut", *settings, dies_at=random.Random().randint(1, steps - 1))
        assert bits(train(contract, "cut", *settings)) == bits(whole)


@pytest.mark.extended
def test_the_division_of_a_step_does_not_change_its_update(aligned: Path) -> None:
    common = (
        "training.num_epochs=1",
        "training.gradient_clipping=off",
        "training.freeze={}",
        "training.optimizer={name: sgd, learning_rate: 0.1, momentum: 0.0}",
        "training.scheduler={name: constant}",
    )
    runs = [
        train(
            aligned / "aligned.yaml",
            f"of-{size}",
            *common,
            f"training.batch_size={size}",
            f"training.gradient_accumulation_steps={8 // size}",
        )
        for size in (8, 2)
    ]
    first, second = (run.job.model.state_dict() for run in runs)
    for name, tensor in first.items():
        assert float((second[name] - tensor).abs().max()) < 1e-5, name


@pytest.mark.extended
def test_an_image_encoder_of_another_run_is_taken(aligned: Path) -> None:
    pairs = """\
name: eyes
data: {kind: pairs, path: pairs.csv, validation: 0.1, test: 0.3}
model: {kind: dual_encoder, width: 8, image: {kind: resnet, width: 4, blocks: [1, 1]},
        text: {kind: bag, width: 8}}
training: {num_epochs: 1, batch_size: 16}
metric: {target: dummy, resamples: 100}
"""
    (aligned / "eyes.yaml").write_text(pairs)
    own = FIRST.replace(f"image: {IMAGE}", "image_from: runs/eyes")
    (aligned / "taken.yaml").write_text(own)
    with inside(aligned):
        assert command("train", "eyes.yaml", "--run", "eyes").code in (0, 3)
        run = train(aligned / "taken.yaml", "taken", "training.num_epochs=1")
    theirs = network_of(aligned / "runs/eyes/bundle").get_submodule("image").state_dict()
    for name, tensor in run.job.model.get_submodule("image").state_dict().items():
        assert torch.equal(tensor, theirs[name]), name
    (aligned / "other.yaml").write_text(own + "split_seed: 5\n")
    refused = said_of(aligned, "other.yaml")
    assert "was trained on images of the" in refused


def said_of(folder: Path, name: str, *settings: str) -> str:
    """What a contract is refused with."""
    with inside(folder), pytest.raises(Mistake) as found:
        train(folder / name, "refused", *settings)
    return "\n".join(map(str, found.value.problems))


@pytest.mark.extended
@pytest.mark.parametrize(
    ("name", "setting", "words"),
    [
        ("aligned", "model.decoder.kind=causal_lm", "causal_lm"),
        ("aligned", "model={kind: gpt}", "cannot read data of kind captions"),
        ("aligned", "model.projector.grid=5", "fewer places"),
        ("aligned", "data.vocabulary=bytes", "tokenizer"),
        ("aligned", "data.windows=packed", "windows"),
        ("aligned", "distributed.num_gpus=2", "a single process trains on one device"),
        ("aligned", "training.compute.compile=on", "compiled by itself"),
        ("aligned", "training.memory.head_loss=fused", "head_loss: fused"),
        ("aligned", "questions=[{path: x.jsonl}]", "answers no questions"),
        ("aligned", "metric.name=preference_accuracy", "no metric of data of kind captions"),
        ("tuned", "model.start=base", "no bundle of an earlier run"),
        ("tuned", "model.start=runs/nowhere", "no bundle of an earlier run"),
        ("tuned", "model.projector={grid: 1}", "gives the shape"),
        ("tuned", "data.prompt=Look", "reads other texts"),
    ],
)
def test_what_is_not_supported_is_refused(
    name: str, setting: str, words: str, aligned: Path
) -> None:
    assert words in said_of(aligned, f"{name}.yaml", setting)
    assert not (aligned / "runs/refused").exists()


@pytest.mark.extended
def test_what_other_commands_do_not_do_is_said(aligned: Path) -> None:
    with inside(aligned):
        ran = command("predict", "aligned", "pairs.csv")
        assert ran.code == 2
        assert "written, not predicted" in ran.err
        assert command("weights", "export", "aligned", "--to", "huggingface", "-o", "hub").code == 2
        assert command("weights", "export", "aligned", "--to", "onnx", "-o", "m.onnx").code == 2
        asked = command("generate", "aligned", "shown/01.png", "--question", "what")
        assert asked.code == 2
        assert "trained without questions" in asked.err
        turn = command("generate", "aligned", "shown/01.png", "--chat")
        assert turn.code == 2
        assert "not in turns" in turn.err
        several = command("generate", "aligned", "shown/01.png", "--beside", "aligned")
        assert several.code == 2
        assert "do not write beside each other" in several.err


@pytest.mark.extended
def test_questions_are_asked_and_answered(aligned: Path) -> None:
    lines = (aligned / "pairs.csv").read_text().splitlines()
    asked = [
        f"{lines[0]},asked",
        *(f"{line},number {at % 3}?" for at, line in enumerate(lines[1:])),
    ]
    (aligned / "asked.csv").write_text("\n".join(asked) + "\n")
    settings = ("data.path=asked.csv", "data.question=asked", "training.num_epochs=1")
    words = [word for one in settings for word in ("--set", one)]
    with inside(aligned):
        ran = command("train", "aligned.yaml", "--run", "asked", *words)
        assert ran.code in (0, 3), ran.err
        ran = command("generate", "asked", "shown/01.png", "--tokens", "3")
        assert ran.code == 2
        assert "none is asked" in ran.err
        of = ("--tokens", "3", "--temperature", "0")
        ran = command("generate", "asked", "--from", "asked.csv", *of)
        assert ran.code == 0, ran.err
        rows = [json.loads(line) for line in ran.out.splitlines()]
        one = command("generate", "asked", "shown/04.png", "--question", "number 1?", *of, "--json")
    assert rows[4]["question"] == "number 1?"
    assert json.loads(one.out)["text"] == rows[4]["text"]
