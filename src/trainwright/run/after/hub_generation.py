"""What transformers needs of a decoder besides its weights: where a text ends, the tokenizer and
the chat template."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from trainwright.core.files import Json
from trainwright.data.base.token_inputs import DOCUMENT_END
from trainwright.data.encoders.vocabulary import TokenEncoding

_POSITIONS: Final = ("max_position_embeddings", "n_positions")
_BOUNDS: Final = ("bos_token", "eos_token", "pad_token")


class Generation(NamedTuple):
    """JSON files and texts of a folder by name, and what is to be known of them."""

    files: Mapping[str, Mapping[str, Json]]
    texts: Mapping[str, str]
    doubts: Sequence[str] = ()


def describe_generation(encoding: TokenEncoding, config: Mapping[str, Json]) -> Generation:
    """Files of a decoder with this `config.json`, whose own special tokens stay.

    A text ends at the end of a turn or of a document, as `trainwright generate` ends it, and at the
    special tokens that end a text of the base.

    Raises:
        Mistake: the template of the chats is a program that may not run.
    """
    vocabulary = encoding.vocabulary
    tokenizer = vocabulary.hub_tokenizer()
    added = tokenizer.get("added_tokens") or ()
    special = {one["id"]: one["content"] for one in added if one.get("special")}
    end = encoding.turn_end or DOCUMENT_END
    tokens = vocabulary.encode(end).tolist()
    is_one = len(tokens) == 1 and vocabulary.decode(vocabulary.encode(end)) == end
    bounds = {name: _numbers(config.get(f"{name}_id")) for name in _BOUNDS}
    bounds = {name: [one for one in ids if one in special] for name, ids in bounds.items()}
    bounds["eos_token"] = list(dict.fromkeys([*(tokens if is_one else ()), *bounds["eos_token"]]))
    ids: dict[str, Json] = {
        f"{name}_id": found[0] if len(found) == 1 else found or None
        for name, found in bounds.items()
    }
    names = {name: special[ids[0]] for name, ids in bounds.items() if ids and ids[0] in special}
    length = next((config[name] for name in _POSITIONS if config.get(name)), None)
    about = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": length, **names}
    texts = {"tokenizer.json": vocabulary.tokenizer_json or json.dumps(tokenizer)}
    if template := encoding.hub_template:
        texts["chat_template.jinja"] = template
    files = {
        "config.json": {**config, **ids},
        "generation_config.json": ids,
        "tokenizer_config.json": {key: one for key, one in about.items() if one is not None},
    }
    doubts = list(_doubt_chats(encoding, tokens, is_one=is_one)) if encoding.has_turns else []
    return Generation(files, texts, doubts)


def _numbers(found: Json) -> list[int]:
    listed: Iterable[Json] = found if isinstance(found, list) else [found]
    return [one for one in listed if isinstance(one, int)]


def _doubt_chats(encoding: TokenEncoding, end: list[int], *, is_one: bool) -> Iterator[str]:
    mark, encode = encoding.turn_end, encoding.vocabulary.encode
    if not is_one:
        yield (
            f"an answer ends with {mark!r}, {len(end)} tokens: transformers stops there only with "
            f"generate(..., stop_strings=[{mark!r}], tokenizer=tokenizer)"
        )
    pieces = encoding.ask('[{"role": "user", "content": "Hello"}]')
    trained = [token for piece in pieces for token in encode(piece).tolist()]
    if trained != encode("".join(pieces)).tolist():
        yield (
            "the tokens of the whole text of a chat are not those of its pieces, which were "
            "trained: give transformers the pieces, or train with data.template: chatml"
        )
