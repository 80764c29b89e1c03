"""What is hidden from the model, and what is not."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from triage.fallback.masking import Mask

PLAIN = Mask((), ())
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P"
KEY = "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nIBAAK-CAQ==\n-----END RSA PRIVATE KEY-----"

SECRETS = [
    ("Authorization: Bearer abc123def456", "Authorization: Bearer [secret]"),
    ('{"Authorization": "Basic dXNlcjpwYXNz"}', '{"Authorization": "Basic [secret]"}'),
    ("bearer s3cr3t-token.value", "bearer [secret]"),
    (f"got {JWT}, then", "got [secret], then"),
    ("key AKIAIOSFODNN7EXAMPLE used", "key [secret] used"),
    ("aws_secret_access_key = wJalrXUtnFEMI/K7MDENG", "aws_secret_access_key = [secret]"),
    ("AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI", "AWS_SECRET_ACCESS_KEY=[secret]"),
    (f"a\n{KEY}\nb", "a\n[secret]\nb"),
    (f"a {KEY[:45]}", "a [secret]"),
    ("-----BEGIN OPENSSH PRIVATE KEY-----\nabc", "[secret]"),
    ("postgresql://reader:hunter2@db/wh", "postgresql://reader:[secret]@db/wh"),
    ("redis://:p@ss:w@cache:6379/0", "redis://:[secret]@cache:6379/0"),
    ("password=hunter22&x=1", "password=[secret]&x=1"),
    ('{"api_key": "abcd1234"}', '{"api_key": "[secret]"}'),
    ("DB_PASSWORD: correcthorse", "DB_PASSWORD: [secret]"),
    ("ghp_abcdefghijklmnop1234", "[secret]"),
]
PERSONS = [
    ("ask jo.doe+night@example.co.uk now", "ask [person] now"),
    ("<anna@example.com>", "<[person]>"),
    ("assignee=müller@beispiel.de", "assignee=[person]"),
    ("call +49 30 1234567", "call [person]"),
    ("+14155552671", "[person]"),
    ("+1 (415) 555-2671.", "[person]."),
    ("(415) 555-2671", "[person]"),
    ("415-555-2671", "[person]"),
    ("0049 30 1234567", "[person]"),
    ("030/1234567", "[person]"),
    ("tel: 030 123456", "tel: [person]"),
    ('{"phone": "0170 1234567"}', '{"phone": "[person]"}'),
]
KEPT = [
    "CH-007",
    "RC-01 and PE-12, DRV-10",
    "2026-11-30T02:00:00Z",
    "2026-11-30T02:00:00+00:00",
    "2026-11-30 02:00:00.123456-05:00",
    "2026-11-30",
    "1796025600",
    "1796025600.25",
    "-1.5e+16",
    "1e+16",
    "120 300 1500",
    "[100, 200, 3000, 41555526]",
    "(1796025600.0, 1796025660.0)",
    "+0.5 percent",
    "T-20261130-000123",
    "65536",
    "10.0.0.12:9090",
    "192.168.100.200",
    "f47ac10b-58cc-4372-a567-0e02b2c3d479",
    "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    'dock_chute_full{site="FC1",asset="CH-007"}',
    "http://prometheus:9090/api/v1/query?x=1",
    "node_cpu_seconds_total @ 1796025600",
    "the bearer certificate expired",
    "a token of thanks",
    "SELECT count(*) FROM ticket WHERE site = :site",
    "tokens: 12",
    "x = 1 / 3",
    "[secret] [person] [masked]",
    "2026-11-30 415-555",
    "",
]


@pytest.mark.parametrize(("text", "expected"), [*SECRETS, *PERSONS])
def test_hidden(text: str, expected: str) -> None:
    assert PLAIN.clean(text) == expected
    assert PLAIN.clean(expected) == expected


@pytest.mark.parametrize("text", KEPT)
def test_kept(text: str) -> None:
    assert PLAIN.clean(text) == text


def test_given_values_are_hidden_wherever_they_stand() -> None:
    mask = Mask((), ['hun"ter/2', "abcd", "abcdef", "xyz"])
    text = 'a hun"ter/2 b hun\\"ter/2 c hun%22ter%2F2 d abcdefg xyz'
    assert mask.clean(text) == "a [secret] b [secret] c [secret] d [secret]g xyz"


def test_configured_patterns_are_hidden() -> None:
    mask = Mask([r"EMP-\d+", "mask"], [])
    assert mask.clean("EMP-123 wears a mask") == "[masked] wears a [masked]"
    assert mask.clean("[masked]") == "[masked]"


pieces = st.sampled_from(
    [
        *(text for text, _ in [*SECRETS, *PERSONS]),
        *KEPT,
        "@",
        "+",
        "-",
        "eyJ",
        "bearer ",
        "password=",
        "://a:",
        "[secret",
        "]",
        "secret",
        "-----END",
        "é",
        "1",
    ]
)
texts = st.lists(pieces | st.text(max_size=8), max_size=12).map("".join)


@given(texts)
@example("AKIAIOSFODNN7EXAMPLE" * 3)
@example("a@b.coa@b.co+14155552671a@b.co")
def test_cleaning_twice_changes_nothing(text: str) -> None:
    for mask in (PLAIN, Mask(["secret", r"\d{3}"], ["erson", "@b.c"])):
        once = mask.clean(text)
        assert mask.clean(once) == once


@given(st.text(min_size=6, max_size=20), texts)
def test_a_given_value_never_comes_through(secret: str, text: str) -> None:
    cleaned = Mask((), [secret]).clean(f"{text}{secret}{text}")
    for placeholder in ("[secret]", "[person]", "[masked]"):
        cleaned = cleaned.replace(placeholder, "\0")
    assert secret not in cleaned


@pytest.mark.parametrize(
    "piece",
    [
        "a" * 64,
        "a.",
        "a@",
        "a@a.",
        "+1 ",
        "eyJ",
        "eyJaaaaaaaa.",
        "://a:",
        "-----BEGIN PRIVATE KEY-----",
        "-----BEGIN ",
        "bearer ",
        "authorization: ",
        "a_a_a_password",
        "a-",
        "(1",
        "tel",
        "0049 ",
        "[secret]",
        "\n",
    ],
)
def test_the_work_grows_with_the_text_only(piece: str) -> None:
    """A pattern that tries every way to split would not end within the test's time."""
    assert len(PLAIN.clean(piece * (200_000 // len(piece)))) <= 200_000
