"""Redaction of secrets in anything that is stored, and in URLs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from urllib.parse import unquote

HIDDEN = "***"

# A URL that was parsed as a path has one slash. Each pattern takes linear time: none starts a
# search that runs to the end from more than one position of a word.
_URL = re.compile(r"(?<![A-Za-z0-9+.\-])[A-Za-z0-9+.\-]++:/{1,2}[^\s'\"<>`]*")
# A password may contain a slash; a colon with digits and a slash after it is a port.
_USER_AND_PASSWORD = re.compile(r"(:/{1,2})([^\s@:/]*:(?![0-9]+/)[^\s@]*)@")
_USER = re.compile(r"(:/{1,2})([^\s@/?#:]+)@")
_NAMED = re.compile(r"([?&;#])([^=&#;?\s]+)=([^&#;\s]*)")
_IN_PATH = re.compile(
    r"(/(?:api[-_]?keys?|access[-_]?tokens?|tokens?|secrets?|passwords?)/)([^/?#\s]{8,})",
    re.IGNORECASE,
)
_SECRET_NAME = re.compile(
    r"pass|pwd|secret|token|key|sig|credential|auth|\bcode\b|\bsas\b|\bjwt\b|bearer|session",
    re.IGNORECASE,
)
# Libpq names files by them, and S3 versions.
_PLAIN_NAMES = frozenset(
    (
        *("passfile", "sslkey", "sslcert", "sslrootcert", "versionid", "version", "revision"),
        *("rev", "commit", "sha", "sha256", "md5", "etag", "generation", "id", "gid", "docid"),
        *("resourcekey", "primarykey", "sort_key", "order_key", "keyword", "keywords", "design"),
    )
)
_USERS_ARE_NO_SECRET = frozenset({"postgresql", "postgres", "az", "abfs", "abfss", "hf"})
KNOWN_TOKEN = re.compile(
    r"\b(?:hf_[A-Za-z0-9]{20,}|gh[pousr]_[A-Za-z0-9]{16,}|github_pat_[A-Za-z0-9_]{20,}"
    r"|glpat-[A-Za-z0-9_\-]{16,}|xox[abposr]-[A-Za-z0-9\-]{10,}|(?:AKIA|ASIA)[A-Z0-9]{16}"
    r"|AIza[A-Za-z0-9_\-]{30,}|npm_[A-Za-z0-9]{30,}|pypi-[A-Za-z0-9_\-]{30,}|dapi[a-f0-9]{32}"
    r"|[sp]k-(?=[A-Za-z0-9_\-]{0,255}[0-9])(?=[A-Za-z0-9_\-]{0,255}[A-Za-z])[A-Za-z0-9_\-]{20,}"
    r"|(?:hf_|gh[pousr]_|glpat-|[sp]k-|AKIA|ASIA|AIza|npm_)"
    r"(?=[A-Za-z]*[0-9])(?=[0-9]*[A-Za-z])[A-Za-z0-9]{12,}"
    r"|eyJ[A-Za-z0-9_\-]{10,4095}\.[A-Za-z0-9_\-.]+|bot[0-9]{6,}:[A-Za-z0-9_\-]{30,})"
)
"""Tokens by their prefixes. A name in words, such as `ASIA_population_2020`, is none: a contract
that holds a token is refused."""

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
_LONG_RANDOM = re.compile(r"(?<![\w/.\-])(?=\w*\d)(?=\w*[A-Za-z])[A-Za-z0-9_+=]{32,}(?![\w/.\-])")


def hide_in_urls(text: str) -> str:
    """`text` with the secrets of its URLs replaced: passwords, users if the user is a secret,
    parameters whose name or format indicates a secret, tokens in the path."""
    return _URL.sub(lambda match: _hidden(match[0]), text)


def holds_secret(text: str) -> bool:
    """Does a URL in `text` contain a secret, or the text a token of known format?"""
    return bool(KNOWN_TOKEN.search(text)) or hide_in_urls(text) != text


def _hidden(url: str) -> str:
    users, at, rest = url.rpartition("@")
    url = _USER_AND_PASSWORD.sub(rf"\1{HIDDEN}@", users + at) + rest
    url = "".join(_pieces_without_users(url))
    url = _NAMED.sub(_named, url)
    url = _IN_PATH.sub(rf"\1{HIDDEN}", url)
    return KNOWN_TOKEN.sub(HIDDEN, url)


def _pieces_without_users(url: str) -> Iterator[str]:
    """The URL, and each one chained to it, without user parts that are not plain names."""
    end = 0
    for match in _USER.finditer(url):
        scheme = re.split(r"[^A-Za-z0-9+.\-]", url[end : match.start()])[-1].lower()
        plain = scheme in _USERS_ARE_NO_SECRET and not _looks_drawn(match[2])
        yield url[end : match.start()] + (match[0] if plain else f"{match[1]}{HIDDEN}@")
        end = match.end()
    yield url[end:]


def _named(match: re.Match[str]) -> str:
    mark, name, value = match.groups()
    if value in ("", HIDDEN) or not _is_secret(unquote(name), unquote(value)):
        return match[0]
    return f"{mark}{name}={HIDDEN}"


def _is_secret(name: str, value: str) -> bool:
    if name.lower() in _PLAIN_NAMES:
        return False
    return bool(_SECRET_NAME.search(name)) or (len(value) >= 20 and _looks_drawn(value))


def _looks_drawn(word: str) -> bool:
    """Does a word look random? Its letters and digits alternate too often for a name. A hash is not
    a secret."""
    if re.fullmatch(r"[0-9a-fA-F]{32}|[0-9a-fA-F]{40}|[0-9a-fA-F]{64}", word):
        return False
    turns = len(re.findall(r"[A-Za-z](?=[0-9])|[0-9](?=[A-Za-z])", word))
    return len(word) >= 10 and turns >= 4


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
    return KNOWN_TOKEN.sub(HIDDEN, text)


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
