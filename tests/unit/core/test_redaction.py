"""What is written down is searched for secrets in a time that no text can draw out."""

from __future__ import annotations

import pytest

from trainwright.core.redaction import holds_secret, redact, redact_named

LONG = 100_000


@pytest.mark.timeout(30)
@pytest.mark.parametrize(
    "word",
    [
        "x",
        "a://b:",
        "a:/b:",
        "sk-",
        "eyJaaaaaaaaaaa-",
        "a.",
        "://",
        "password",
        "token=",
        "&a",
        "u@",
    ],
)
def test_long_text_takes_no_long_time(word: str) -> None:
    text = (word * LONG)[:LONG]
    redact(text)
    holds_secret(text)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("see 1http://anna:geheim@host/x", "see 1http://***@host/x"),
        ("http://anna:a@b@host/x", "http://***@host/x"),
        ("http://host:80/p a://u:pw@h", "http://host:80/p a://***@h"),
        ("s3:/anna:geheim@bucket/x", "s3:/***@bucket/x"),
        ("https:/anna:geheim@host:1/x?token=abc", "https:/***@host:1/x?token=***"),
        ("my-db_password: hunter2", "my-db_password: ***"),
        ("token:secret=abc", "token:***"),
        ("x" * 300 + "://anna:geheim@host", "x" * 300 + "://***@host"),
    ],
)
def test_secrets_are_found_wherever_they_begin(text: str, shown: str) -> None:
    assert redact(text) == shown


@pytest.mark.parametrize(
    "token",
    [
        "pk-lf-1a2b3c4d-5e6f-7a8b-9c0d",
        "bot123456:" + "AbCdEf_GhI" * 3,
        "ghp_a1b2c3d4e5f6",
        "eyJhbGciOiJIUzI1NiJ9.e30",
    ],
)
def test_a_token_is_hidden_and_refused_by_the_same_pattern(token: str) -> None:
    assert redact_named(f"note {token}") == "note ***"
    assert holds_secret(token)


@pytest.mark.parametrize("name", ["ASIA_population_2020", "npm_package_downloads", "hf_simulation"])
def test_a_name_with_the_prefix_of_a_token_is_none(name: str) -> None:
    assert redact_named(name) == name
    assert not holds_secret(name)
