"""Export of a network as a folder that transformers opens. Needs torch."""

from __future__ import annotations

from pathlib import Path

from safetensors.torch import save

from trainwright.core.errors import Mistake, Problem
from trainwright.core.files import write_atomic, write_json, write_text
from trainwright.model.families import network_family
from trainwright.predictor.network_scorer import NetworkScorer
from trainwright.run.folder.check_own_files import read_own_bundle
from trainwright.tracking.run_folder import RunFolder


def export_folder(folder: RunFolder, output: Path) -> str:
    """Write `config.json`, `model.safetensors` and, for subwords, `tokenizer.json` into a new
    folder; returns the architecture.

    Raises:
        Mistake: the run is not finished, no architecture of transformers has the shape of its
            model, or the folder is there. StorageFailed: it cannot be written.
    """
    if output.exists():
        raise Mistake(
            Problem(
                "a file or folder is there already",
                path="-o",
                found=str(output),
                expected="a name that is free",
                fix="choose another name with -o FOLDER",
            )
        )
    predictor = read_own_bundle(folder)
    scorer, layout = predictor.scorer, None
    if isinstance(scorer, NetworkScorer):
        layout = network_family(scorer.section).hub_layout(scorer.section, scorer.network)
    if layout is None:
        raise Mistake(
            Problem(
                f"run {folder.name} has no model in a layout of transformers",
                found=f"a model of kind {scorer.kind}",
                expected="a decoder, model.kind: gpt; the bundle of an encoder is such a folder",
                fix="write its weights alone: --to safetensors",
            )
        )
    output.mkdir(parents=True)
    weights = dict(layout.weights)
    write_atomic(output / "model.safetensors", save(weights, metadata={"format": "pt"}))
    write_json(output / "config.json", dict(layout.config))
    if tokenizer := predictor.features.tokenizer_json:
        write_text(output / "tokenizer.json", tokenizer)
    return str(layout.config["architectures"][0])
