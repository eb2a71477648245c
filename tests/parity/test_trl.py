"""Losses of preferences and of answers against the trainers of trl, on the same batch: the loss and
the gradient of every weight."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("trl")

from torch import Tensor  # noqa: E402

from made_decoders import LLAMA, write_decoder  # noqa: E402
from trainwright.contract.sections.model.gpt import Gpt  # noqa: E402
from trainwright.data.loading.batch import Batch, TargetMask  # noqa: E402
from trainwright.data.loading.document_dataset import NO_TARGET  # noqa: E402
from trainwright.model.families import network_family  # noqa: E402
from trainwright.model.gpt.decoder_folder import foreign_weights  # noqa: E402
from trainwright.model.input_shape import TokenShape  # noqa: E402
from trainwright.objective.classification_losses import CrossEntropyLoss  # noqa: E402
from trainwright.objective.fused_head_loss import FusedHeadLoss  # noqa: E402
from trainwright.objective.losses import Supervised  # noqa: E402
from trainwright.objective.preference_losses import (  # noqa: E402
    ByPair,
    DpoLoss,
    answer_log_probabilities,
)

pytestmark = [
    pytest.mark.torch,
    pytest.mark.slow,  # trl takes ten seconds to import; `test_preference_losses` is beside it
    pytest.mark.filterwarnings("ignore"),
]

PAIRS, LONGEST, TOKENS, BETA = 4, 24, 131, 0.3


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model, another one that is its reference, and a tokenizer that trl asks for."""
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    folder = tmp_path_factory.mktemp("bases")
    write_decoder("llama", LLAMA, folder / "model")
    reference = write_decoder("llama", LLAMA, folder / "reference")
    with torch.no_grad():
        for parameter in reference.parameters():
            parameter.mul_(1.1)
    reference.save_pretrained(folder / "reference")
    words = {f"w{number}": number for number in range(TOKENS)}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="w0"))
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="w0", eos_token="w1", unk_token="w0"
    ).save_pretrained(folder / "tokenizer")
    return folder


def ours(folder: Path) -> tuple[Gpt, Any]:
    section = Gpt(kind="gpt", architecture=str(folder), context=LONGEST)
    family = network_family(section)
    section = family.read_files(section, folder.parent)
    return section, family.build(section, TokenShape(TOKENS))


def answers() -> tuple[Tensor, Tensor, Tensor]:
    """Tokens [2 P, L] of chosen and then of rejected answers behind their prompts, padded with 0;
    which places hold tokens; and which of them belong to the answer."""
    draw = torch.Generator().manual_seed(5)
    tokens = torch.randint(2, TOKENS, (2 * PAIRS, LONGEST), generator=draw)
    lengths = torch.randint(10, LONGEST + 1, (2 * PAIRS, 1), generator=draw)
    prompts = torch.randint(2, 8, (PAIRS, 1), generator=draw).repeat(2, 1)
    places = torch.arange(LONGEST)
    held = places < lengths
    return tokens.where(held, 0), held.long(), (held & (places >= prompts)).long()


def trainer_of(kind: str, bases: Path, folder: Path, **settings: Any) -> Any:
    import trl
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(bases / "model", dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(bases / "tokenizer")
    common = {"output_dir": str(folder), "report_to": "none", "use_cpu": True, "bf16": False}
    rows: dict[str, list[str]] = {"prompt": ["w2 w3"], "completion": ["w4"]}
    more: dict[str, Any] = {}
    if kind == "DPO":
        rows = {"prompt": ["w2 w3"], "chosen": ["w4"], "rejected": ["w5"]}
        reference = AutoModelForCausalLM.from_pretrained(bases / "reference", dtype=torch.float32)
        more = {"ref_model": reference}
    args = (
        getattr(trl, f"{kind}Config")(
            **common, gradient_checkpointing=False, disable_dropout=True, **settings
        )
        if kind == "DPO"
        else trl.SFTConfig(**common, gradient_checkpointing=False, **settings)
    )
    return getattr(trl, f"{kind}Trainer")(
        model=model,
        args=args,
        train_dataset=Dataset.from_dict(rows),
        processing_class=tokenizer,
        **more,
    )


def check_same(section: Gpt, network: Any, loss: Tensor, trainer: Any, theirs: Tensor) -> None:
    assert float(loss.detach()) == pytest.approx(float(theirs.detach()), abs=1e-5)
    loss.backward()
    theirs.backward()
    gradients = {name: one.grad for name, one in network.named_parameters()}
    renamed = foreign_weights(section, "llama", gradients)
    found = {name: one.grad for name, one in trainer.model.named_parameters()}
    assert set(renamed) == set(found)
    for name, gradient in found.items():
        assert (renamed[name] - gradient).abs().max() < 1e-5, name


@pytest.mark.parametrize(
    ("loss_type", "form", "normalised"),
    [("sigmoid", "sigmoid", False), ("sigmoid_norm", "sigmoid", True), ("ipo", "ipo", True)],
)
def test_the_loss_of_preferences(
    loss_type: str, form: Any, normalised: bool, bases: Path, tmp_path: Path
) -> None:
    trainer = trainer_of("DPO", bases, tmp_path, beta=BETA, loss_type=[loss_type])
    tokens, held, answer = answers()
    given = {"input_ids": tokens, "attention_mask": held, "completion_mask": answer}
    theirs = trainer.compute_loss(trainer.model, given)

    section, network = ours(bases / "model")
    _, reference = ours(bases / "reference")
    target = tokens[:, 1:].masked_fill(answer[:, 1:] == 0, NO_TARGET)
    with torch.no_grad():
        known = answer_log_probabilities(reference(tokens[:, :-1]), target)

    def by_pair(one: Tensor) -> Tensor:
        """Chosen and rejected ones side by side."""
        return torch.stack(one.split(PAIRS), dim=1)

    lengths = answer[:, 1:].sum(dim=1)
    scale = BETA / lengths if normalised else torch.full((2 * PAIRS,), BETA)
    tensors = {"tokens": tokens[:, :-1], "target": target, "reference": known, "scale": scale}
    batch = Batch({name: by_pair(one) for name, one in tensors.items()}, target="target")
    total, pairs = ByPair(DpoLoss(BETA, form))(network, batch)
    check_same(section, network, total / pairs, trainer, theirs)


@pytest.mark.parametrize("head", ["separate", "fused"])
def test_the_loss_of_answers(head: str, bases: Path, tmp_path: Path) -> None:
    trainer = trainer_of("SFT", bases, tmp_path)
    tokens, held, answer = answers()
    labels = tokens.masked_fill(answer == 0, -100)
    given = {"input_ids": tokens, "attention_mask": held, "labels": labels}
    theirs = trainer.compute_loss(trainer.model, given)

    section, network = ours(bases / "model")
    counted = answer[:, 1:] > 0
    batch = Batch(
        {"input": tokens[:, :-1], "target": tokens[:, 1:]},
        target="target",
        mask=TargetMask(counted, counted),
    )
    objective = FusedHeadLoss() if head == "fused" else Supervised(CrossEntropyLoss())
    total, targets = objective(network, batch)
    check_same(section, network, total / targets, trainer, theirs)
