"""What must not reach a model: secrets, and what tells of persons."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple
from urllib.parse import quote

SECRET, PERSON, MASKED = "[secret]", "[person]", "[masked]"
LEAST_SECRET = 4
"""Characters of a given value that is masked wherever it stands: a shorter one is in any text."""
MAX_PASSES = 8

PHONE_DIGITS = range(8, 16)  # of an international number, its country's code included

_PLACEHOLDER = re.compile(r"(\[secret\]|\[person\]|\[masked\])")
_VALUE = r"[^\s\"'`,;&\[\]{}()<>]"


class _Rule(NamedTuple):
    """`needs` are texts in lower case of which one is in every match: most texts hold none, and
    looking for that is a hundred times faster than the pattern."""

    pattern: re.Pattern[str]
    replace: str | Callable[[re.Match[str]], str]
    needs: tuple[str, ...] = ("",)


def _phone(found: re.Match[str]) -> str:
    digits = sum(one.isdigit() for one in found[0])
    return PERSON if digits in PHONE_DIGITS else found[0]


# Every repetition is bounded or cannot be split in two ways, so a text costs one pass of each.
_RULES = (
    _Rule(
        re.compile(
            r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
            r"(?:(?!-----END)[\s\S])*(?:-----END[A-Z0-9 ]{0,60}-----)?"
        ),
        SECRET,
        ("private key",),
    ),
    _Rule(re.compile(r"\beyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?"), SECRET, ("eyj",)),
    _Rule(
        re.compile(r"\b(?:AKIA|ASIA|AROA|AIDA|AGPA|ANPA)[A-Z0-9]{16}\b"),
        SECRET,
        ("akia", "asia", "aroa", "aida", "agpa", "anpa"),
    ),
    _Rule(
        re.compile(r"\b(?:gh[oprsu]_|glpat-|xox[abprs]-|sk-)[\w-]{16,}"),
        SECRET,
        ("ghp_", "gho_", "ghs_", "ghr_", "ghu_", "glpat-", "xox", "sk-"),
    ),
    _Rule(
        re.compile(
            rf"(?i:(\bauthorization[\"']?\s{{0,4}}[:=]\s{{0,4}}[\"']?"
            rf"(?:(?:bearer|basic|digest|token)\s{{1,4}})?))(?!(?i:bearer|basic|digest|token)\s)"
            rf"{_VALUE}{{4,}}"
        ),
        rf"\1{SECRET}",
        ("authorization",),
    ),
    _Rule(
        # With a digit among its first characters: "bearer certificate" is no token.
        re.compile(r"(\b(?i:bearer)\s{1,4})(?=[A-Za-z._~+/-]{0,64}[0-9])[\w.~+/=-]{8,}"),
        rf"\1{SECRET}",
        ("bearer",),
    ),
    _Rule(
        re.compile(
            r"(?i:((?<![A-Za-z0-9])(?:[A-Za-z0-9]{1,30}[_-]){0,4}"
            r"(?:password|passwd|pwd|secret|api[_-]?key|access[_-]?key|private[_-]?key|token)"
            rf"[\"']?\s{{0,4}}[:=]\s{{0,4}}[\"']?)){_VALUE}{{4,}}"
        ),
        rf"\1{SECRET}",
        ("passw", "pwd", "secret", "key", "token"),
    ),
    _Rule(
        re.compile(r"(\b[a-zA-Z][a-zA-Z0-9+.-]{1,20}://[^\s/:@]{0,100}:)[^\s/]{1,200}@"),
        rf"\1{SECRET}@",
        ("://",),
    ),
    _Rule(
        re.compile(r"(?<![\w.%+'-])[\w.%+'-]{1,64}@(?:[\w-]{1,63}\.){1,8}[^\W\d_]{2,24}(?![\w-])"),
        PERSON,
        ("@",),
    ),
    _Rule(re.compile(r"(?<![\w.+-])\+[1-9][\d ().\-/]{6,24}\d(?![\w:])"), _phone, ("+",)),
    _Rule(
        re.compile(r"(?<![\w.+-])00[1-9]\d{0,2}[ -]\d{2,5}[ -]?\d{4,10}(?![\w:.])"), PERSON, ("00",)
    ),
    _Rule(re.compile(r"(?<![\w.+-])(?:\(\d{3}\) ?|\d{3}-)\d{3}-\d{4}(?![\w:.-])"), PERSON, ("-",)),
    _Rule(re.compile(r"(?<![\w.+-])0\d{2,4}/\d{5,9}(?![\w:.])"), PERSON, ("/",)),
    _Rule(
        re.compile(
            r"(\b(?i:telephone|telefon|phone|mobile|tel|fax)\.?[\"']?:?[\"']?\s{0,3}[\"']?)"
            r"[+(]{0,2}\d[\d ().\-/]{5,24}\d(?![\w:])"
        ),
        rf"\1{PERSON}",
        ("tel", "phone", "mobile", "fax"),
    ),
)


class Mask:
    """`patterns` are regular expressions of what else is hidden; `secrets` are values that are
    hidden wherever they stand, also as JSON and URLs spell them. Patterns must be valid."""

    def __init__(self, patterns: Sequence[str], secrets: Sequence[str]) -> None:
        given = {
            spelled
            for secret in secrets
            if len(secret) >= LEAST_SECRET
            for spelled in (secret, json.dumps(secret)[1:-1], quote(secret, safe=""))
        }
        longest_first = sorted(given, key=lambda one: (-len(one), one))
        verbatim = [re.compile("|".join(map(re.escape, longest_first)))] if given else []
        self._rules = (
            *(_Rule(pattern, SECRET) for pattern in verbatim),
            *(_Rule(re.compile(pattern), lambda _: MASKED) for pattern in patterns),
            *_RULES,
        )

    def clean(self, text: str) -> str:
        """Cleaning what is clean changes nothing. Takes time in proportion to the text, as far as
        the configured patterns do."""
        for _ in range(MAX_PASSES):
            cleaned = text
            lowered = text.lower()
            for rule in self._rules:
                if any(need in lowered for need in rule.needs):
                    cleaned = _applied(rule, cleaned)
            if cleaned == text:
                return text
            text = cleaned
        # What is hidden goes on uncovering more: made to keep us busy, and not worth reading.
        return MASKED


def _applied(rule: _Rule, text: str) -> str:
    """Of what stands between the placeholders, which stay as they are."""
    if rule.pattern.search(text) is None:
        return text
    parts = _PLACEHOLDER.split(text)
    parts[::2] = [rule.pattern.sub(rule.replace, part) if part else part for part in parts[::2]]
    return "".join(parts)
