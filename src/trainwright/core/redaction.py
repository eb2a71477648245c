"""Redaction of secrets in anything that is stored."""

from __future__ import annotations

import re
from collections.abc import Sequence

from trainwright.core.secret_urls import HIDDEN, hide_in_urls

# `token` stays in the singular: `max_tokens` is a setting.
_WORD = (
    r"(?:api[-_]?keys?|access[-_]?key(?:[-_]id)?|secrets?(?:[-_]?key)?|token|passw(?:or)?ds?|passphrase"
    r"|credentials?|signature|auth(?:orization)?|bearer|private[-_]?key|pwd|sig)"
)
_SECRET_OPTION = re.compile(rf"-{{0,2}}[\w.\-]*{_WORD}", re.IGNORECASE)
# A closing quotation mark or bracket after the value stays.
_SECRET_VALUE = re.compile(
    rf"({_WORD}[\"']?\s*[=:]\s*)(\"[^\"\n]+\"|'[^'\n]+'|[^\s&,;]*[^\s&,;'\")\]}}])",
    re.IGNORECASE,
)
_USER_INFO = re.compile(r"((?<=[A-Za-z0-9+.\-]):/{1,2})[^/\s?#]*@")
_BEARER = re.compile(r"\b(bearer|basic)\s+[A-Za-z0-9._~+/=\-]{8,}", re.IGNORECASE)
_KNOWN_TOKEN = re.compile(
    r"\b(?:hf_|gh[pousr]_|github_pat_|glpat-|sk-|pk-|xox[abposr]-|AKIA|ASIA|AIza|npm_|pypi-|dapi)"
    r"[A-Za-z0-9_\-]{12,}|\beyJ[A-Za-z0-9_\-]{1,4095}\.[A-Za-z0-9_\-.]+"
)
_LONG_RANDOM = re.compile(r"(?<![\w/.\-])(?=\w*\d)(?=\w*[A-Za-z])[A-Za-z0-9_+=]{32,}(?![\w/.\-])")


def redact(text: str) -> str:
    """`text` with apparent secrets replaced by `***`.

    These are: user, password and keys of a URL, values of names such as `token` or `password`,
    tokens of known formats, and single words of 32 or more letters and digits.
    """
    return _LONG_RANDOM.sub(HIDDEN, redact_named(text))


def redact_named(text: str) -> str:
    """As `redact`, but keeps long words, such as column names and hashes."""
    text = _USER_INFO.sub(rf"\1{HIDDEN}@", hide_in_urls(text))
    text = _BEARER.sub(rf"\1 {HIDDEN}", text)
    text = _SECRET_VALUE.sub(rf"\1{HIDDEN}", text)
    return _KNOWN_TOKEN.sub(HIDDEN, text)


def names_a_secret(name: str) -> bool:
    """Is the value of an option or a key of this name a secret?"""
    return bool(_SECRET_OPTION.fullmatch(name))


def redact_command(arguments: Sequence[str]) -> list[str]:
    """Words of a command line, without the values of options whose name indicates a secret."""
    shown: list[str] = []
    hide_next = False
    for argument in arguments:
        if hide_next and not argument.startswith("--"):
            shown.append(HIDDEN)
            hide_next = False
            continue
        shown.append(redact(argument))
        hide_next = argument.startswith("-") and names_a_secret(argument)
    return shown
