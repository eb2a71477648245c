"""One word in several spellings: what people and programs write differently and mean alike."""

from __future__ import annotations

import unicodedata
from string import ascii_lowercase
from typing import Literal

import polars as pl

INVISIBLE = r"[\u{00ad}\u{180e}\u{200b}\u{2060}-\u{2064}\u{202a}-\u{202e}\u{2066}-\u{2069}\u{feff}]"
"""Characters that show nothing: soft hyphens, blanks without width, marks of direction. The joiners
U+200C and U+200D are letters of some scripts and parts of emoji."""

_ALPHABET = frozenset(ascii_lowercase)
_LOOKALIKES = str.maketrans(
    # Letters of Cyrillic and Greek that look like Latin ones (Unicode TS 39, confusables).
    dict(zip("асеһіјкмоорԛѕтухԝνοαρτυχικ", "acehijkmoopqstyxwvoaptuxik", strict=True))
)
_USUAL_WIDTH = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)}
"""Full-width forms (U+FF01 to U+FF5E) as the letters of ASCII that they are."""


def folded(values: pl.Series, accents: Literal["kept", "dropped"]) -> pl.Series:
    """Words without what spellings of one word differ in: case, blanks, hyphens, a full stop at the
    end, full-width and composed letters of Unicode, characters that show nothing, letters of
    another script that look like Latin ones among Latin ones, and, if they are `dropped`, accents,
    in which words of some languages differ too. What holds no letter is unchanged, and so is a sign
    before a digit."""
    plain = values.str.replace_all(INVISIBLE, "")
    plain = plain.map_elements(_composed, return_dtype=pl.String)
    if accents == "dropped":
        plain = plain.map_elements(_without_accents, return_dtype=pl.String)
    plain = plain.str.to_lowercase()
    plain = plain.map_elements(_in_one_script, return_dtype=pl.String)
    plain = plain.str.strip_chars().str.replace(r"[.,;:!]+$", "")
    plain = plain.str.replace_all(r"(\s|^)-(\d)", "${1}\x00${2}")
    plain = plain.str.replace_all(r"[\s_-]+", " ")
    return plain.zip_with(plain.str.contains(r"\p{L}"), values)


def _composed(word: str) -> str:
    """A word of composed letters of the usual width. What stands above the line stays there: a
    square metre is no m2."""
    return word if word.isascii() else unicodedata.normalize("NFC", word).translate(_USUAL_WIDTH)


def _without_accents(word: str) -> str:
    """A word whose Latin letters have no accents. The marks of other scripts make other letters."""
    if word.isascii():
        return word
    plain: list[str] = []
    for letter in word:
        parts = unicodedata.normalize("NFD", letter)
        first, marks = parts[0], parts[1:]
        latin = first.lower() in _ALPHABET and all(unicodedata.combining(mark) for mark in marks)
        plain.append(first if latin else letter)
    return "".join(plain)


def _in_one_script(word: str) -> str:
    """A word that is part Latin with all its letters in Latin."""
    if word.isascii() or not any(letter in _ALPHABET for letter in word):
        return word
    return word.translate(_LOOKALIKES)
