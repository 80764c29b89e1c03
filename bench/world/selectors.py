"""Metric selectors as Prometheus reads them: `name{label="value", other=~"pattern"}`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

_NAME = re.compile(r"\s*([a-zA-Z_:][a-zA-Z0-9_:]*)\s*")
_MATCHER = re.compile(
    r'\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*(=~|!~|!=|=)\s*"((?:[^"\\\n]|\\.)*)"\s*', re.DOTALL
)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_MEANT = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", '"': '"', "'": "'"}


class BadSelector(ValueError):
    """The text is no selector; the message says where it ends to be one."""


@dataclass(frozen=True, slots=True)
class Matcher:
    label: str
    holds: Callable[[str], bool]
    """Of the label's value; an absent label has the value ""."""


@dataclass(frozen=True, slots=True)
class Selector:
    metric: str
    matchers: tuple[Matcher, ...]

    def selects(self, labels: Mapping[str, str]) -> bool:
        """Whether all matchers hold; the metric's name is not looked at."""
        return all(matcher.holds(labels.get(matcher.label, "")) for matcher in self.matchers)


def parsed(text: str) -> Selector:
    """A selector that begins with a metric's name. Raises BadSelector for any other text."""
    name = _NAME.match(text)
    if name is None:
        raise BadSelector(f"{text!r} does not begin with a metric's name")
    position = name.end()
    if position == len(text):
        return Selector(name[1], ())
    if text[position] != "{":
        raise BadSelector(f"{text!r}: unexpected {text[position]!r} behind the metric's name")
    position += 1
    matchers = []
    while (found := _MATCHER.match(text, position)) is not None:
        matchers.append(Matcher(found[1], _condition(found[2], _unescaped(found[3]))))
        position = found.end()
        if not text.startswith(",", position):
            break
        position += 1
    if text[position:].strip() != "}":
        raise BadSelector(f"{text!r}: no matcher at {text[position : position + 20]!r}")
    return Selector(name[1], tuple(matchers))


def _condition(op: str, value: str) -> Callable[[str], bool]:
    match op:
        case "=":
            return value.__eq__
        case "!=":
            return value.__ne__
        case _:
            try:
                pattern = re.compile(value)
            except re.error as error:
                raise BadSelector(f"{value!r} is no regular expression: {error}") from None
            if op == "=~":
                return lambda text: pattern.fullmatch(text) is not None
            return lambda text: pattern.fullmatch(text) is None


def _unescaped(text: str) -> str:
    def meant(found: re.Match[str]) -> str:
        try:
            return _MEANT[found[1]]
        except KeyError:
            raise BadSelector(f"{found[0]!r} is no escape sequence") from None

    return _ESCAPE.sub(meant, text)
