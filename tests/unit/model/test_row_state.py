"""Hidden states of rows: what stands before the outputs of each architecture."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from trainwright.model.row_state import (  # noqa: E402
    PROJECTION,
    add_projection,
    projected,
    reading_state,
    remove_projection,
)

TEXTS: dict[str, dict[str, Any]] = {
    "bert": {
        "hidden_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 24,
    },
    "distilbert": {"dim": 16, "n_layers": 1, "n_heads": 2, "hidden_dim": 24},
    "roberta": {
        "hidden_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 24,
    },
    "electra": {
        "hidden_size": 16,
        "embedding_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 24,
    },
}


def check_state(network: nn.Module, outputs: nn.Module, *given: Any) -> None:
    """The outputs are those of the layer for the state that it read."""
    from trainwright.model.pretrained.sequence_classifier import output_layer

    head = output_layer(network)
    assert head is outputs
    assert head is not None
    network.eval()
    with torch.no_grad(), reading_state(head) as state:
        logits = network(*given).logits
        assert state().shape == (2, head.in_features)
        torch.testing.assert_close(head(state()), logits, rtol=0, atol=0)


@pytest.mark.extended
@pytest.mark.parametrize("kind", TEXTS)
def test_an_encoder_of_texts_has_the_state_of_its_last_layer(kind: str) -> None:
    """Also where a matrix to the teacher's width has as many outputs as there are classes."""
    transformers = pytest.importorskip("transformers")
    config = transformers.AutoConfig.for_model(kind, vocab_size=60, num_labels=3, **TEXTS[kind])
    network = transformers.AutoModelForSequenceClassification.from_config(config)
    last = [one for one in network.modules() if isinstance(one, nn.Linear)][-1]
    assert last.out_features == 3
    add_projection(network, last, 3)
    check_state(network, last, torch.randint(3, 60, (2, 7)))


@pytest.mark.extended
@pytest.mark.parametrize("kind", ["vit", "convnext", "resnet"])
def test_an_encoder_of_images_has_the_state_of_its_last_layer(kind: str) -> None:
    transformers = pytest.importorskip("transformers")
    from made_image_bases import TINY

    config = transformers.AutoConfig.for_model(kind, num_labels=3, **TINY[kind])
    network = transformers.AutoModelForImageClassification.from_config(config)
    last = [one for one in network.modules() if isinstance(one, nn.Linear)][-1]
    check_state(network, last, torch.randn(2, 3, 16, 16))


@pytest.mark.extended
def test_a_head_that_reads_every_token_has_no_state_of_a_row() -> None:
    transformers = pytest.importorskip("transformers")
    from trainwright.model.pretrained.sequence_classifier import output_layer

    sizes = {"n_embd": 16, "n_layer": 1, "n_head": 2, "vocab_size": 60, "num_labels": 3}
    config = transformers.AutoConfig.for_model("gpt2", **sizes)
    network = transformers.AutoModelForSequenceClassification.from_config(config)
    assert output_layer(network) is None


def test_a_matrix_is_there_only_between_other_widths() -> None:
    network = nn.Sequential(nn.Linear(3, 4))
    head, state = nn.Linear(4, 2), torch.randn(5, 4)
    add_projection(network, head, 4)
    assert projected(network, state) is state
    add_projection(network, head, 6)
    weight = network.get_submodule(PROJECTION).get_parameter("weight")
    torch.testing.assert_close(projected(network, state), state @ weight.T)
    remove_projection(network)
    assert list(dict(network.named_children())) == ["0"]


def test_the_state_is_no_longer_read_after_the_block() -> None:
    head = nn.Linear(4, 2)
    with reading_state(head) as state:
        given = torch.randn(3, 4)
        head(given)
        assert state() is given
    head(torch.randn(3, 4))
    assert state() is given
