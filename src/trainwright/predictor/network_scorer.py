"""Scorer of a trained network. Needs torch; imported only where a network is used."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, final

import numpy as np
import numpy.typing as npt
import torch
from pydantic import TypeAdapter
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional

from trainwright.checkpoint.files.tensor_file import write_tensors
from trainwright.contract.sections.model import Model
from trainwright.contract.sections.model.traits import ModelSection
from trainwright.core.files import Json, read_json, write_json
from trainwright.core.limits import MOST_LAYERS
from trainwright.data.base.inputs import Floats, Inputs, Integers
from trainwright.data.base.token_inputs import TokenInputs
from trainwright.data.columns.target import Target, target_from_json
from trainwright.data.text.eval_windows import EvalWindows, cut_windows
from trainwright.engine.execution.adaptive_eval_batch import AdaptiveEvalBatch
from trainwright.model.families import network_family
from trainwright.model.input_shape import Shape, shape_from_json
from trainwright.model.model_call import call_model
from trainwright.model.row_state import reading_state
from trainwright.objective.fused_head_loss import HeadlessDecoder
from trainwright.objective.output_link import OutputLink

_ARCHITECTURE = "network.json"
_LOGITS = 2**22
_TOKENS = 2**13
"""Tokens per pass over a text: activations should stay in the caches."""
_MOST_CONTEXT = 2**20
"""Positions take memory of their own, without a weight."""
_SECTION: TypeAdapter[Model] = TypeAdapter(Model)

Beside = Callable[[Integers], Mapping[str, npt.NDArray[Any]]]
"""What a network reads beside the tokens of segments, whose numbers are given."""


def _nothing_beside(_segments: Integers) -> Mapping[str, npt.NDArray[Any]]:
    return {}


@final
class NetworkScorer:
    """Network in evaluation mode, set by the caller: several threads may score at once. `portions`
    is the batch size."""

    def __init__(
        self,
        section: ModelSection,
        shape: Shape,
        target: Target,
        model: nn.Module,
        portions: AdaptiveEvalBatch | None = None,
    ) -> None:
        self._section = section
        self._shape = shape
        self._target = target
        self._link = OutputLink(target)
        self._model = model
        self._portions = portions or AdaptiveEvalBatch()

    def of(self, model: nn.Module) -> NetworkScorer:
        """The same of another network of this shape."""
        return NetworkScorer(self._section, self._shape, self._target, model, self._portions)

    @property
    def network(self) -> nn.Module:
        """The network, in evaluation mode."""
        return self._model

    @property
    def section(self) -> ModelSection:
        """Its section of the contract."""
        return self._section

    @property
    def shape(self) -> Shape:
        """Its inputs and outputs."""
        return self._shape

    @property
    def context(self) -> int:
        """Longest window of a text."""
        return self._section.context_length

    def score(self, inputs: Inputs) -> Floats:
        """Class probabilities [N, C], values [N, 1] in the target's own unit, or of a text the
        negative log-likelihood (nats) of each segment, [N, 1].

        Raises:
            Mistake: memory does not suffice, see `AdaptiveEvalBatch`.
        """
        # Modes belong to the whole model: changing them in one thread would change another's
        # scores.
        assert not self._model.training, "a scorer's model is in evaluation mode"
        with torch.no_grad():
            return self._portions.complete(partial(self._ordered, inputs))

    @property
    def head(self) -> nn.Linear | None:
        """The layer that reads the hidden state of a row; None where none does."""
        return network_family(self._section).head(self._model)

    def hidden_states(self, inputs: Inputs) -> npt.NDArray[np.float32]:
        """What the head reads of each row, [N, D].

        Raises:
            Mistake: as `score`.
        """
        assert not self._model.training, "a scorer's model is in evaluation mode"
        with torch.no_grad():
            return self._portions.complete(partial(self._states, inputs))

    def _states(self, inputs: Inputs) -> npt.NDArray[np.float32]:
        head, order = self.head, inputs.scoring_order()
        assert head is not None, "a model without a state was refused"
        given = inputs.take(order) if len(order) else inputs
        with reading_state(head) as state:

            def read_state(rows: slice) -> Tensor:
                self._output(given, rows)
                return state().float().cpu()

            states = self._portions.score_each(self._slices(given), read_state).numpy()
        return states[np.argsort(order, kind="stable")] if len(order) else states

    @property
    def kind(self) -> str:
        """`network`, or what the family calls its bundles."""
        if self._section.has_adapter:
            return "adapter"
        return network_family(self._section).bundle_kind(self._shape)

    def write(self, folder: Path) -> None:
        """Weights as safetensors and the architecture as JSON. Of an adapter, the base is named by
        the SHA-256 of its weights, and by where it lies."""
        family = network_family(self._section)
        of_base = self._outside()
        tensors = {
            name: tensor.detach().cpu().contiguous()
            for name, tensor in self._model.state_dict().items()
            if name not in of_base
        }
        write_tensors(folder / weights_file_of(self._section), tensors)
        beside = family.describe_files(self._model, self._shape, self._target)
        for name, content in beside.items():
            write_json(folder / name, content)
        write_json(
            folder / _ARCHITECTURE,
            {
                "model": self._section.model_dump(mode="json"),
                **self._shape.to_json(),
                "target": self._target.to_json(),
                **_places_of_bases(self._section, folder),
            },
        )

    def _outside(self) -> frozenset[str]:
        """What the files of the bases of its adapters hold."""
        if not self._section.has_adapter:
            return frozenset()
        return network_family(self._section).base_names(self._section, self._model)

    def _ordered(self, inputs: Inputs) -> Floats:
        """Scores, computed in the order that suits the inputs."""
        order = inputs.scoring_order()
        if not len(order):
            return self._scored(inputs)
        scores = self._scored(inputs.take(order))
        return scores[np.argsort(order, kind="stable")]

    def _scored(self, inputs: Inputs) -> Floats:
        if self._target.task == "generation":
            segments = TokenInputs.of_kind(inputs.segments)
            return inputs.from_likelihoods(self.segment_nll(segments, inputs.beside_segments))
        if not len(inputs):
            return np.zeros((0, self._shape.outputs))
        outputs = self._portions.score_each(
            self._slices(inputs), lambda rows: self._output(inputs, rows).double().cpu()
        )
        return self._link.scores(outputs).numpy()

    def _slices(self, inputs: Inputs) -> list[slice]:
        """The rows of each pass."""
        rows = self._portions.rows(min(inputs.rows_at_once, len(inputs)))
        return [slice(start, start + rows) for start in range(0, len(inputs), rows)]

    def _output(self, inputs: Inputs, rows: slice) -> Tensor:
        """Outputs of the network for some rows."""
        parameter = next(self._model.parameters())
        arrays = inputs.arrays(rows.start, rows.stop)
        tensors = [_argument(array, parameter) for array in arrays.values()]
        return call_model(self._model, tuple(arrays), tensors)

    def segment_nll(self, inputs: TokenInputs, beside: Beside = _nothing_beside) -> Floats:
        """Negative log-likelihood of each segment's tokens, summed, float64 [N, 1]; `beside` are
        the arguments of the network behind the tokens of some segments."""
        context = self._section.context_length
        tokens = min(_TOKENS, _LOGITS // self._logits_of_a_token())
        parts: list[EvalWindows] = []
        for windows in cut_windows(inputs, context):
            rows = self._portions.rows(min(max(1, tokens // context), len(windows.starts)))
            starts = range(0, len(windows.starts), rows)
            parts += [windows.between(start, start + rows) for start in starts]
        scores = np.zeros(len(inputs))
        if parts:
            sums = self._portions.score_each(parts, partial(self._window_nll, beside)).numpy()
            np.add.at(scores, np.concatenate([part.segments for part in parts]), sums)
        return scores[:, None]

    def _window_nll(self, beside: Beside, windows: EvalWindows) -> Tensor:
        """Negative log-likelihood of the scored tokens of each window, summed, [W]."""
        parameter = next(self._model.parameters())
        device = parameter.device
        more = [_argument(one, parameter) for one in beside(windows.segments).values()]
        logits = self._model(_tokens(windows, 0, device), *more)[:, -windows.predicted :]
        target = _tokens(windows, 1, device)[:, -windows.predicted :]
        nll = functional.cross_entropy(
            logits.float().flatten(0, 1), target.flatten(), reduction="none"
        )
        each = nll.view(len(windows.starts), -1).double()
        if not isinstance(windows.mask, str):
            each = each * torch.from_numpy(windows.counted()).to(device)
        return each.sum(dim=1).cpu()

    def _logits_of_a_token(self) -> int:
        """More than the tokens of the data where a base knows more."""
        model = self._model
        return len(model.head_weight) if isinstance(model, HeadlessDecoder) else self._shape.outputs


def _argument(array: npt.NDArray[Any], parameter: Tensor) -> Tensor:
    """An array on the device of the model; numbers in the type of its parameters."""
    # Rows that are mapped from a file cannot be written, which torch warns of.
    tensor = torch.from_numpy(np.require(array, requirements="W"))
    is_number = tensor.is_floating_point()
    return tensor.to(parameter.device, parameter.dtype if is_number else tensor.dtype)


def _tokens(windows: EvalWindows, shift: int, device: torch.device) -> Tensor:
    return torch.from_numpy(windows.tokens(shift).astype(np.int64)).to(device)


def read_network(folder: Path) -> NetworkScorer:
    """Read what `NetworkScorer.write` wrote; the caller has verified the files.

    Raises:
        ValueError: the architecture is larger than its weights, raised before memory is allocated;
            or a weight is not finite. What pydantic, safetensors and torch raise.
    """
    about = read_json(folder / _ARCHITECTURE)
    section = _SECTION.validate_json(json.dumps(about["model"]))
    if not section.is_loop_trained:
        raise ValueError(f"{_ARCHITECTURE} names no network: {section.kind}")
    file = folder / weights_file_of(section)
    shape, family = shape_from_json(about), network_family(section)
    # Bundles of encoders with adapters were whole before.
    is_beside = section.has_adapter and file.is_file()
    if is_beside:
        section = family.with_base(section, _recorded_places(about, folder))
        build = family.build_of_bundle
    else:
        file, build = folder / family.weights_file, family.build_empty
    places = section.base_places.values() if is_beside else ()
    beside = [one for place in places for one in Path(place.folder).glob("*.safetensors")]
    _check_size(section, shape, sum(one.stat().st_size for one in (file, *beside)))
    model = build(section, shape)
    weights = load_file(file)
    if not all(bool(torch.isfinite(tensor).all()) for tensor in weights.values()):
        raise ValueError(f"{file.name} holds numbers that are not finite")
    of_base = family.base_names(section, model) if is_beside else frozenset()
    _load(model, weights, of_base)
    model.eval().requires_grad_(False)
    if of_base:
        from trainwright.model.adapters.merge_adapter import share_base

        share_base(model, section.base_weights, of_base)
    return NetworkScorer(section, shape, target_from_json(about["target"]), model)


def _places_of_bases(section: ModelSection, folder: Path) -> dict[str, Json]:
    """Where the bases of adapters lie, seen from their bundle, so that all may move together."""
    if not section.has_adapter:
        return {}
    near = {
        name: Path(os.path.relpath(place.folder, folder)).as_posix()
        for name, place in section.base_places.items()
        if place.folder and not place.is_of_hub
    }
    alone = {"base_folder": near.pop("")} if "" in near else {}
    return {**alone, "base_folders": near} if near else {**alone}


def _recorded_places(about: Json, folder: Path) -> dict[str, str]:
    """Folders that `_places_of_bases` wrote."""
    near = dict(about.get("base_folders", {}))
    if alone := about.get("base_folder", ""):
        near[""] = alone
    return {name: str((folder / one).resolve()) for name, one in near.items()}


def weights_file_of(section: ModelSection) -> str:
    """Name of the weights in a bundle."""
    if section.has_adapter:
        return "adapter.safetensors"
    return network_family(section).weights_file


def _load(model: nn.Module, weights: dict[str, Tensor], of_base: frozenset[str]) -> None:
    """Load everything but what the base holds."""
    missing, unexpected = model.load_state_dict(weights, strict=False)
    if unexpected or set(missing) != of_base:
        raise ValueError("it has other weights than its architecture")


def _check_size(section: ModelSection, shape: Shape, weights_bytes: int) -> None:
    """Check an architecture against the size of its weights: each parameter takes one byte or
    more."""
    if not shape.is_possible:
        raise ValueError(f"{_ARCHITECTURE} names impossible sizes")
    if section.context_length > _MOST_CONTEXT:
        raise ValueError(f"{_ARCHITECTURE} names a context above {_MOST_CONTEXT:,}")
    family = network_family(section)
    if (layers := family.count_layers(section)) > MOST_LAYERS:
        raise ValueError(f"{_ARCHITECTURE} has {layers:,} layers, at most {MOST_LAYERS:,}")
    try:
        parameters = family.count_parameters(section, shape)
        parameters += family.count_frozen(section, shape)
    except (OverflowError, RuntimeError, TypeError) as error:
        raise ValueError(f"{_ARCHITECTURE} names impossible sizes") from error
    if parameters > weights_bytes:
        raise ValueError(
            f"{_ARCHITECTURE} has {parameters:,} parameters, {weights_file_of(section)} "
            f"{weights_bytes:,} bytes"
        )
