"""Text quality: length, repetition, markup, encoding and language."""

from __future__ import annotations

import numpy as np
import polars as pl

from trainwright.contract.sections.data.quality import FindingKind
from trainwright.core.formatting import many
from trainwright.data.base.messages import some
from trainwright.data.base.parse_cells import INVISIBLE
from trainwright.data.quality.examined_data import ColumnView, ExaminedData
from trainwright.data.quality.finding import Finding, Severity

_FEWEST_LETTERS = 3
_TIMES_LONGER = 3.0
_LONG = 500
_MOST_REPEATED, _MOST_REPEATED_THREES = 0.3, 0.5
_FEWEST_WORDS = 10
_FEWEST_LETTERS_HAMMERED, _MOST_LETTERS_HAMMERED = 20, 3
_LETTERS_BEGUN = 200
_LETTERS_FOR_A_LANGUAGE = 40
_LETTERS_READ = 300
_COMMON_LANGUAGE = 0.6
_SURE = 10.0
_MOST_TEXTS = 5_000
_FENCED_CODE = r"(?s)```.*?(```|$)"
_SHOWN = 40

MARKUP = r"&(?:#\d+|#x[0-9a-fA-F]+|[a-zA-Z]{2,8});|</?[a-zA-Z][^<>]{0,200}>"
CONTROL = r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u{fffd}]|" + INVISIBLE


def short_text(data: ExaminedData) -> list[Finding]:
    """Texts of fewer than 3 letters and digits."""
    found = []
    for look in data.of_kind("text"):
        letters = look.values.str.count_matches(r"[\p{L}\p{N}]")
        none = (letters == 0).fill_null(False)
        few = ((letters < _FEWEST_LETTERS) & (letters > 0)).fill_null(False)
        found += _texts(data, look, none, "short_text", "warning", "without a letter or digit")
        text = f"of fewer than {_FEWEST_LETTERS} letters"
        found += _texts(data, look, few, "short_text", "info", text)
    return found


def long_text(data: ExaminedData) -> list[Finding]:
    """Texts of at least 500 characters and more than 3 times the 99th percentile of the lengths."""
    found = []
    for look in data.of_kind("text"):
        length = look.values.str.len_chars()
        if not length.count():
            continue
        usual = float(np.quantile(length.drop_nulls().to_numpy(), 0.99))
        limit = max(_LONG, _TIMES_LONGER * usual)
        rows = (length > limit).fill_null(False)
        text = f"of more than {limit:.0f} characters (99 of 100 have at most {usual:.0f})"
        found += _texts(data, look, rows, "long_text", "info", text)
    return found


def repeated_text(data: ExaminedData) -> list[Finding]:
    """Texts of at least 10 words of which fewer than 30 % of the words and half of the word
    trigrams are distinct (a long text repeats words, but in new combinations), and texts of at
    least 20 letters of which at most 3 are distinct."""
    found = []
    for look in data.of_kind("text"):
        words = look.values.str.to_lowercase().str.extract_all(r"\w+")
        count = words.list.len()
        distinct = words.list.n_unique()
        few = ((count >= _FEWEST_WORDS) & (distinct < _MOST_REPEATED * count)).fill_null(False)
        again = [row for row in few.arg_true().to_list() if _repeats(words[row].to_list())]
        rows = pl.Series(np.isin(np.arange(len(data)), again)) | _hammered(look.values)
        text = "of repeated words"
        found += _texts(data, look, rows, "repeated_text", "warning", text)
    return found


def _hammered(texts: pl.Series) -> pl.Series:
    """Texts of at least 20 letters with hardly any distinct: a key held down."""
    # A list of letters takes many times the memory of its text: a prefix selects the candidates.
    begun = _letters(texts.str.head(_LETTERS_BEGUN)).list.n_unique() <= _MOST_LETTERS_HAMMERED
    rows = begun.fill_null(False).arg_true()
    letters = _letters(texts.gather(rows))
    long = letters.list.len() >= _FEWEST_LETTERS_HAMMERED
    hammered = rows.filter(long & (letters.list.n_unique() <= _MOST_LETTERS_HAMMERED))
    return pl.Series(np.isin(np.arange(len(texts)), hammered.to_numpy()))


def _letters(texts: pl.Series) -> pl.Series:
    return texts.str.to_lowercase().str.extract_all(r"[\p{L}\p{N}]")


def _repeats(words: list[str]) -> bool:
    threes = list(zip(words, words[1:], words[2:], strict=False))
    return len(set(threes)) < _MOST_REPEATED_THREES * len(threes)


def markup(data: ExaminedData) -> list[Finding]:
    """Texts and categories with HTML tags or entities; also feature categories with a tag
    character, as in `<1H OCEAN`, which an unescaped page loses."""
    found = []
    for look in data.looks:
        if look.name in data.left_out or look.kind not in ("text", "categorical"):
            continue
        rows = look.values.str.contains(MARKUP).fill_null(False)
        found += _texts(data, look, rows, "markup", "info", "with HTML tags or entities")
        if look.kind == "categorical" and look.name != data.target and not rows.any():
            special = look.values.str.contains("[<>]").fill_null(False)
            found += _texts(data, look, special, "markup", "info", "with < or >")
    return found


def line_breaks(data: ExaminedData) -> list[Finding]:
    """Cells with line breaks."""
    found = []
    for look in data.looks:
        written = data.raw[look.name]
        if written.dtype == pl.String and look.name not in data.left_out:
            rows = written.str.contains("[\r\n]").fill_null(False)
            if int(rows.sum()) <= len(data) / 2:
                found += _texts(data, look, rows, "line_breaks", "info", "with line breaks")
    return found


def mojibake(data: ExaminedData) -> list[Finding]:
    """Texts that were decoded with the wrong encoding (`cafÃ©` for `café`; ftfy's heuristic), or
    that hold control, replacement or invisible characters."""
    found = []
    for look in data.looks:
        if look.name in data.left_out or look.kind not in ("text", "categorical"):
            continue
        strange = look.values.str.contains(rf"[^\x00-\x7f]|{CONTROL}").fill_null(False)
        if not strange.any():
            continue
        # Imported here: plain ASCII does not need it.
        from ftfy.badness import is_bad

        candidates = look.values.filter(strange).unique(maintain_order=True)
        control = candidates.filter(candidates.str.contains(CONTROL))
        bad = {text for text in candidates.to_list() if is_bad(text)} | set(control.to_list())
        rows = look.values.is_in(list(bad)).fill_null(False)
        text = "decoded with the wrong encoding, or with invisible characters"
        found += _texts(data, look, rows, "mojibake", "warning", text)
    return found


def other_language(data: ExaminedData) -> list[Finding]:
    """Texts of at least 40 letters not in the common language (py3langid on the first 300
    characters outside fenced code). More than 5,000 texts are subsampled evenly, which the finding
    reports."""
    found = []
    for look in data.of_kind("text"):
        prose = look.values.str.replace_all(_FENCED_CODE, " ")
        letters = prose.str.count_matches(r"\p{L}")
        long = np.flatnonzero((letters >= _LETTERS_FOR_A_LANGUAGE).fill_null(False).to_numpy())
        step = max(1, -(-len(long) // _MOST_TEXTS))
        long = long[::step]
        if len(long) < _FEWEST_WORDS:
            continue
        texts = prose.gather(long).str.slice(0, _LETTERS_READ).to_list()
        languages, margins = _languages(texts)
        names, counts = np.unique(languages, return_counts=True)
        common = names[int(np.argmax(counts))]
        if counts.max() < _COMMON_LANGUAGE * len(long):
            continue
        others = long[(languages != common) & (margins > _SURE)]
        rows = pl.Series(np.isin(np.arange(len(data)), others))
        text = f"in another language than the others ({common})"
        text += f", among {len(long):,} checked" if step > 1 else ""
        found += _texts(data, look, rows, "other_language", "warning", text)
    return found


def _languages(texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Likeliest language of each text, and its margin over the next in nats."""
    from py3langid import rank

    names, margins = [], []
    for text in texts:
        (name, first), (_, second) = rank(text)[:2]
        names.append(name)
        margins.append(first - second)
    return np.array(names), np.array(margins)


def _texts(
    data: ExaminedData,
    look: ColumnView,
    rows: pl.Series,
    kind: FindingKind,
    severity: Severity,
    text: str,
) -> list[Finding]:
    count = int(rows.sum())
    if not count:
        return []
    examples = look.values.filter(rows).unique(maintain_order=True).head(2).to_list()
    shown = some([repr(example[:_SHOWN]) for example in examples])
    return [
        Finding(
            kind,
            severity,
            f"{look.name!r} has {many(count, 'value')} {text}: {shown}",
            count,
            data.places(rows),
            (look.name,),
            f"inspect them; data.quality.actions: {{{kind}: drop}} excludes them from training",
        )
    ]
