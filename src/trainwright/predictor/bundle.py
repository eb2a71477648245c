"""A predictor as a folder: JSON, and a model in its library's plain format. No pickle, no code.

bundle.json     format, kind, size and sha256 of every other file, what it is about, hash of the
                contract, version of the data, versions of the libraries, metrics with intervals
features.json   how columns become numbers        target.json   the classes, or the number
signature.json  the columns that it reads         profile.json  how the training rows were
calibration.json  how scores become probabilities, where they are calibrated
members/        of an ensemble: the bundle of each of its models
and the scorer's own files: those that its kind needs, and any others that it lists
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from trainwright.core.errors import Mistake, Problem, TrainwrightError
from trainwright.core.faultpoints import reached
from trainwright.core.files import (
    Json,
    damage_in,
    hash_value,
    read_json,
    storage_errors,
    sync_folder,
    write_json,
    write_text,
)
from trainwright.core.lazy_imports import need_torch
from trainwright.data.columns.target import target_from_json
from trainwright.data.encoders.encoding import Encoding
from trainwright.data.types import encoding_from_json, side_files
from trainwright.model.families import library_bundles, library_of_bundle
from trainwright.model.family import Scorer
from trainwright.predictor.bundle_files import (
    Description,
    are_safe_names,
    changes_of_files,
    check_predictor,
    describe_file,
    names_of_files,
    sync_file,
)
from trainwright.predictor.calibration import NOT_CALIBRATED, Calibration
from trainwright.predictor.predictor import Predictor

FORMAT, CALIBRATED_FORMAT, COSTS_FORMAT = 2, 3, 4
"""Earlier versions would read a calibrated model and leave the calibration out, or decide without
the costs of errors."""
_READABLE = (1, 2, 3, 4)
MANIFEST = "bundle.json"
_COMMON = ("features.json", "target.json")
_SIGNATURE, _PROFILE = "signature.json", "profile.json"
_CALIBRATION = "calibration.json"
_MOST_MANIFEST_BYTES = 4 * 1024 * 1024

_FILES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "constant": ("constant.json",),
        "frequencies": ("frequencies.json",),
        "answer_lengths": (),
        "ridge_match": ("ridge_match.npz",),
        "okapi_bm25": ("okapi_bm25.npz",),
        "ensemble": ("ensemble.json",),
        "network": ("network.json", "network.safetensors"),
        "encoder": ("network.json", "config.json", "model.safetensors", "tokenizer.json"),
        "image_encoder": ("network.json", "config.json", "model.safetensors"),
        "adapter": ("network.json", "adapter.safetensors"),
    }
)
"""Of the kinds of scorers that no library fits."""

_ENSEMBLE = "ensemble"
_OF_TORCH = ("network", "encoder", "image_encoder", "adapter")

NOT_DESCRIBED = Description()


def bundle_kinds() -> tuple[str, ...]:
    """Every kind of scorer that a bundle may hold."""
    return (*_FILES, *library_bundles())


def needed_files(kind: str) -> tuple[str, ...]:
    """Files that a kind of scorer needs, next to `features.json` and `target.json`.

    Raises:
        KeyError: no scorer is of this kind.
    """
    return _FILES[kind] if kind in _FILES else library_of_bundle(kind).bundle_files


def write_bundle(
    predictor: Predictor, folder: Path, about: Json, description: Description = NOT_DESCRIBED
) -> None:
    """Write a new bundle to `folder`, replacing an existing one.

    `about` is stored unchanged, for people. `bundle.json` is written last, so a folder that has one
    is complete. It lists whatever files the scorer wrote.

    Raises:
        Mistake: `folder` contains something that is not a bundle. StorageFailed: the disk.
    """
    _check_replaceable(folder)
    kind = predictor.scorer.kind
    new = folder.with_name(f".tmp-{os.getpid()}-{folder.name}")
    with storage_errors(f"writing {folder}"):
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(parents=True)
        try:
            _write_parts(predictor, new, description)
            names = sorted(names_of_files(new))
            assert set(names) >= {*_COMMON, *needed_files(kind)}, (
                "a scorer writes what its kind needs"
            )
            files = {name: describe_file(new / name) for name in names}
            version = CALIBRATED_FORMAT if predictor.calibration else FORMAT
            version = COSTS_FORMAT if predictor.target.costs else version
            manifest = {"format": version, "kind": kind, "files": files, "about": about}
            write_json(new / MANIFEST, {**manifest, **_facts(description)})
            for name in names:
                sync_file(new / name)
            for inner in [path for path in new.rglob("*") if path.is_dir()]:
                sync_folder(inner)
            sync_folder(new)
            reached("export")
            if folder.exists():
                (folder / MANIFEST).unlink(missing_ok=True)
                shutil.rmtree(folder)
            new.rename(folder)
        except BaseException:
            shutil.rmtree(new, ignore_errors=True)
            raise
        sync_folder(folder.parent)


def _write_parts(predictor: Predictor, new: Path, description: Description) -> None:
    """The files of features, target, scorer, calibration and description."""
    write_json(new / "features.json", predictor.features.to_json())
    write_json(new / "target.json", predictor.target.to_json())
    for name, text in predictor.features.beside().items():
        write_text(new / name, text)
    predictor.scorer.write(new)
    if predictor.scorer.kind == _ENSEMBLE:
        _write_members(predictor.scorer, new)
    if predictor.calibration:
        write_json(new / _CALIBRATION, predictor.calibration.to_json())
    if description:
        write_json(new / _SIGNATURE, {"columns": list(map(dict, description.signature))})
        write_json(new / _PROFILE, description.profile)


def read_bundle(folder: Path) -> Predictor:
    """Read a bundle after verifying every file of it.

    Raises:
        Mistake: not a bundle, or files that are changed, missing or unexpected, each named.
            MissingExtra: the library of its kind is not installed.
    """
    manifest = verified_manifest(folder)
    if manifest["kind"] in _OF_TORCH:
        need_torch("", "this network")
    elif manifest["kind"] not in _FILES:
        library_of_bundle(manifest["kind"]).need_library("", "this model")
    # Imported here: a training reads no bundle.
    from trainwright.predictor.read_scorer import read_scorer

    try:
        features = _read_features(folder, manifest["files"])
        target = target_from_json(read_json(folder / "target.json"))
        scorer = read_scorer(str(manifest["kind"]), folder, _read_member)
        outputs = max(target.outputs, len(target.quantiles))
        calibration = _read_calibration(manifest, folder, outputs)
        predictor = Predictor(features, target, scorer, calibration)
        check_predictor(predictor)
    except (MemoryError, OSError, TrainwrightError):
        raise
    # The readers of every kind of model, and the models themselves on a trial row, raise what their
    # libraries stumble over.
    except Exception as error:
        said = (str(error).splitlines() or [repr(error)])[0]
        raise _not_whole(folder, f"its content cannot be read ({said:.200})") from error
    return predictor


def verified_manifest(folder: Path) -> dict[str, Json]:
    """Manifest of a bundle of which every file was verified; raises as `read_bundle`."""
    manifest = _read_manifest(folder)
    _verify(folder, manifest)
    return manifest


def read_description(folder: Path) -> Description:
    """Description of the model of a bundle, empty in an earlier format. The files of the model are
    not read.

    Raises:
        Mistake: as `read_bundle`. DamagedFile: a file that says something else, with hashes that
            fit. StorageFailed: the disk.
    """
    manifest = _read_manifest(folder)
    listed = {name: manifest["files"].get(name) for name in (_SIGNATURE, _PROFILE)}
    if None in listed.values():
        return NOT_DESCRIBED
    if problems := list(changes_of_files(folder, listed)):
        raise Mistake([Problem(f"{folder} is not a whole bundle"), *problems])
    with storage_errors(f"reading {folder}"):
        with damage_in(folder / _SIGNATURE):
            signature = _columns(read_json(folder / _SIGNATURE))
        with damage_in(folder / _PROFILE):
            profile = _mapping(read_json(folder / _PROFILE))
    with damage_in(folder / MANIFEST):
        return Description(
            contract_hash=str(manifest["contract_hash"]),
            data_version=str(manifest["data_version"]),
            signature=signature,
            profile=profile,
            libraries=_mapping(manifest["libraries"]),
            metrics=_mapping(manifest.get("metrics", {})),
        )


def _columns(value: Json) -> tuple[dict[str, Json], ...]:
    """Columns of a signature; what is shown of each is a text."""
    columns = value["columns"]
    if not isinstance(columns, list):
        raise TypeError("its columns are no list")
    for at, one in enumerate(columns, 1):
        facts = one if isinstance(one, dict) else {}
        if not all(isinstance(facts.get(key), str) for key in ("name", "type")):
            raise ValueError(f"column {at} has no name or no type")
    return tuple(columns)


def _mapping(value: Json) -> dict[str, Json]:
    if not isinstance(value, dict):
        raise TypeError(f"a mapping is a {type(value).__name__}")
    return value


def add_metrics(folder: Path, metrics: Json) -> None:
    """Write the metrics of the judged model into its bundle.

    Raises:
        Mistake: not a bundle. StorageFailed: the disk.
    """
    manifest = _read_manifest(folder)
    with storage_errors(f"writing {folder / MANIFEST}"):
        write_json(folder / MANIFEST, {**manifest, "metrics": metrics})


def bundle_hash(folder: Path) -> str:
    """SHA-256 of what the model of a bundle is made of, its metrics apart.

    Raises:
        Mistake: not a bundle.
    """
    manifest = _read_manifest(folder)
    return hash_value({"kind": manifest["kind"], "files": manifest["files"]})


def _facts(description: Description) -> dict[str, Json]:
    if not description:
        return {}
    return {
        "contract_hash": description.contract_hash,
        "data_version": description.data_version,
        "libraries": dict(description.libraries),
    }


def _read_features(folder: Path, listed: Mapping[str, Json]) -> Encoding:
    """The encoding, with the listed files that it has beside its JSON."""
    json = read_json(folder / "features.json")
    names = set(listed) & set(side_files(json))
    beside = {name: (folder / name).read_text(encoding="utf-8") for name in names}
    return encoding_from_json({**json, **beside})


def _write_members(scorer: Scorer, folder: Path) -> None:
    """The bundle of each model of an ensemble."""
    from trainwright.predictor.ensemble_scorer import MEMBERS, EnsembleScorer

    assert isinstance(scorer, EnsembleScorer), "the one scorer of this kind"
    for member in scorer.members:
        write_bundle(member.predictor, folder / MEMBERS / member.name, {"member": member.name})


def _read_member(folder: Path) -> Predictor:
    """A model of an ensemble, which is none itself."""
    if _read_manifest(folder)["kind"] == _ENSEMBLE:
        raise ValueError("an ensemble of ensembles")
    return read_bundle(folder)


def _read_calibration(manifest: Mapping[str, Json], folder: Path, outputs: int) -> Calibration:
    """Of a bundle that has one.

    Raises:
        KeyError, TypeError, ValueError: invalid content.
    """
    has_costs = manifest["format"] == COSTS_FORMAT
    if manifest["format"] < CALIBRATED_FORMAT or (
        has_costs and _CALIBRATION not in manifest["files"]
    ):
        return NOT_CALIBRATED
    calibration = Calibration.from_json(read_json(folder / _CALIBRATION))
    calibration.check(outputs)
    return calibration


def _read_manifest(folder: Path) -> dict[str, Json]:
    path = folder / MANIFEST
    if not path.is_file() or path.is_symlink():
        raise _not_whole(folder, f"there is no {MANIFEST} in it")
    if path.stat().st_size > _MOST_MANIFEST_BYTES:
        raise _not_whole(folder, f"its {MANIFEST} is too large")
    try:
        manifest = read_json(path)
    except (ValueError, RecursionError) as error:
        raise _not_whole(folder, f"its {MANIFEST} is not JSON ({error})") from error
    if not isinstance(manifest, dict) or manifest.get("format") not in _READABLE:
        known = ", ".join(map(str, _READABLE))
        raise _not_whole(folder, f"its {MANIFEST} is not of format {known}")
    kind, files = manifest.get("kind"), manifest.get("files")
    try:
        needed = {*_COMMON, *needed_files(str(kind))}
    except KeyError:
        known = ", ".join(bundle_kinds())
        raise _not_whole(folder, f"its kind is {kind!r}, not one of {known}") from None
    if manifest["format"] == CALIBRATED_FORMAT:
        needed.add(_CALIBRATION)
    if not isinstance(files, dict) or not set(files) >= needed or not are_safe_names(files):
        raise _not_whole(folder, f"its {MANIFEST} does not list the files of a {kind} bundle")
    return manifest


def _verify(folder: Path, manifest: dict[str, Json]) -> None:
    listed = manifest["files"]
    problems = [
        Problem(f"{name} does not belong to this bundle", found=name, fix="remove it")
        for name in sorted(names_of_files(folder) - {*listed, MANIFEST})
    ]
    problems += changes_of_files(folder, listed)
    if problems:
        raise Mistake([Problem(f"{folder} is not a whole bundle"), *problems])


def _not_whole(folder: Path, why: str) -> Mistake:
    return Mistake(
        Problem(
            f"{folder} is not a bundle: {why}",
            fix="give the bundle folder of a finished run, for example runs/income-1/bundle",
        )
    )


def _check_replaceable(folder: Path) -> None:
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise Mistake(Problem(f"{folder} is not a folder", fix="choose another place"))
    if folder.is_dir() and names_of_files(folder) and not (folder / MANIFEST).is_file():
        raise Mistake(
            Problem(
                f"{folder} holds other files",
                expected="a new folder, or one with a bundle",
                fix="choose another place",
            )
        )
