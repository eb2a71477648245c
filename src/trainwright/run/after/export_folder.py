"""Export of a network as a folder that transformers opens. Needs torch."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from safetensors.torch import save

from trainwright.core.errors import Mistake, Problem
from trainwright.core.files import Json, write_atomic, write_json, write_text
from trainwright.data.encoders.vocabulary import TokenEncoding
from trainwright.model.families import network_family
from trainwright.predictor.network_scorer import NetworkScorer
from trainwright.run.after.hub_generation import describe_generation
from trainwright.run.folder.check_own_files import read_own_bundle
from trainwright.tracking.run_folder import RunFolder


class ExportedFolder(NamedTuple):
    """The architecture, and what is to be known of the folder; mostly nothing."""

    architecture: str
    doubts: tuple[str, ...] = ()


def merge_folder(folder: RunFolder, output: Path) -> ExportedFolder:
    """As `export_folder`, of a run that has trained an adapter.

    Raises:
        Mistake: as `export_folder`, or it has trained a whole model.
    """
    scorer = read_own_bundle(folder).scorer
    if not isinstance(scorer, NetworkScorer) or not scorer.section.has_adapter:
        raise Mistake(
            Problem(
                f"run {folder.name} has no adapter to merge",
                found=f"a whole model of kind {scorer.kind}",
                expected="a run whose contract has model.adapter",
                fix="write the model itself: trainwright weights export",
            )
        )
    return export_folder(folder, output)


def export_folder(folder: RunFolder, output: Path) -> ExportedFolder:
    """Write `config.json`, `model.safetensors`, the tokenizer and, of a decoder, where a text ends
    and the chat template into a new folder; an adapter is merged into its base.

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
    scorer, layout, beside = predictor.scorer, None, dict[str, Mapping[str, Json]]()
    if isinstance(scorer, NetworkScorer):
        family = network_family(scorer.section)
        layout = family.hub_layout(scorer.section, scorer.network)
        described = family.describe_files(scorer.network, scorer.shape, predictor.target)
        beside.update(described)
    if layout is None:
        raise Mistake(
            Problem(
                f"run {folder.name} has no model in a layout of transformers",
                found=f"a model of kind {scorer.kind}",
                expected="a decoder, model.kind: gpt; the bundle of an encoder is such a folder",
                fix="write its weights alone: --to safetensors",
            )
        )
    features = predictor.features
    texts = {**features.beside(), "tokenizer.json": features.tokenizer_json}
    files, doubts = {"config.json": layout.config, **beside}, [layout.doubt]
    if isinstance(scorer, NetworkScorer) and scorer.section.traits.writes_text:
        generation = describe_generation(TokenEncoding.of_kind(features), layout.config)
        texts |= generation.texts
        files |= generation.files
        doubts += generation.doubts
    output.mkdir(parents=True)
    weights = dict(layout.weights)
    write_atomic(output / "model.safetensors", save(weights, metadata={"format": "pt"}))
    for name, content in files.items():
        write_json(output / name, dict(content))
    for name, text in texts.items():
        if text:
            write_text(output / name, text)
    return ExportedFolder(str(layout.config["architectures"][0]), tuple(filter(None, doubts)))
