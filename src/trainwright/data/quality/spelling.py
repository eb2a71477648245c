"""One word in several spellings: what people and programs write differently and mean alike."""

from __future__ import annotations

import unicodedata
from string import ascii_lowercase

import polars as pl

INVISIBLE = r"[\u{00ad}\u{180e}\u{200b}\u{2060}-\u{2064}\u{202a}-\u{202e}\u{2066}-\u{2069}\u{feff}]"
"""Characters that show nothing: soft hyphens, blanks without width, marks of direction. The joiners
U+200C and U+200D are letters of some scripts and parts of emoji."""

_ALPHABET = frozenset(ascii_lowercase)
_LOOKALIKES = str.maketrans(
    # Letters of Cyrillic and Greek that look like Latin ones (Unicode TS 39, confusables).
    dict(zip("асеһіјкмоорԛѕтухԝνοαρτυχικ", "acehijkmoopqstyxwvoaptuxik", strict=True))
)


def folded(values: pl.Series) -> pl.Series:
    """Words without what spellings of one word differ in: case, blanks, hyphens, a full stop at the
    end, accents, forms of one letter in Unicode, characters that show nothing, and letters of
    another script that look like Latin ones among Latin ones. What holds no letter stays as it is,
    and so does a sign before a digit."""
    plain = values.str.replace_all(INVISIBLE, "")
    plain = plain.map_elements(_without_accents, return_dtype=pl.String).str.to_lowercase()
    plain = plain.map_elements(_in_one_script, return_dtype=pl.String)
    plain = plain.str.strip_chars().str.replace(r"[.,;:!]+$", "")
    plain = plain.str.replace_all(r"(\s|^)-(\d)", "${1}\x00${2}")
    plain = plain.str.replace_all(r"[\s_-]+", " ")
    return plain.zip_with(plain.str.contains(r"\p{L}"), values)


def _without_accents(word: str) -> str:
    """A word whose Latin letters have no accents. The marks of other scripts make other letters."""
    if word.isascii():
        return word
    plain: list[str] = []
    for letter in unicodedata.normalize("NFKC", word):
        parts = unicodedata.normalize("NFKD", letter)
        first, marks = parts[0], parts[1:]
        latin = first.lower() in _ALPHABET and all(unicodedata.combining(mark) for mark in marks)
        plain.append(first if latin else letter)
    return "".join(plain)


def _in_one_script(word: str) -> str:
    """A word that is part Latin with all its letters in Latin."""
    if word.isascii() or not any(letter in _ALPHABET for letter in word):
        return word
    return word.translate(_LOOKALIKES)
