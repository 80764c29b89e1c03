"""Answers that are moved, scaled or renamed on their way to a tool."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Mapping
from typing import Any

from triage.maker.instants import Shift
from triage.model.query import (
    Aggregate,
    Answer,
    Call,
    Query,
    Reading,
    Rows,
    Samples,
    Series,
    query_digest,
)
from triage.trial.model import Answers

Change = Callable[[Query, Answer], Answer]


class Moved:
    """The answers of a case to a tool that is asked about another week."""

    def __init__(self, answers: Answers, shift: Shift) -> None:
        self._answers = answers
        self._shift = shift

    async def answer(self, query: Query, *, timeout_s: float) -> Answer:
        then = self._shift.back.query(query)
        return self._shift.answer(then, await self._answers.answer(then, timeout_s=timeout_s))


class Changed:
    """Answers with something done to each, or only to the one to `only`, a query's digest."""

    def __init__(self, answers: Answers, change: Change, *, only: str = "") -> None:
        self._answers = answers
        self._change = change
        self._only = only

    async def answer(self, query: Query, *, timeout_s: float) -> Answer:
        answer = await self._answers.answer(query, timeout_s=timeout_s)
        if self._only and query_digest(query) != self._only:
            return answer
        return self._change(query, answer)


class Renaming:
    """A site's name for another, wherever it stands as a word of its own, in any case."""

    def __init__(self, name: str) -> None:
        self.before = name
        self.after = codecs.encode(name, "rot13") if name.isascii() else f"x{name}"
        if self.after == name:  # it has no letters
            self.after = f"x{name}"

    def there(self, text: str) -> str:
        return _replaced(text, self.before, self.after)

    def back(self, text: str) -> str:
        return _replaced(text, self.after, self.before)

    def query(self, query: Query) -> Query:
        """As it was asked before the renaming."""
        match query:
            case Samples() | Aggregate():
                return query._replace(selector=self.back(query.selector))
            case Rows():
                params = tuple((name, texts(value, self.back)) for name, value in query.params)
                return query._replace(sql=self.back(query.sql), params=params)
            case Call():
                return query._replace(arguments=self.back(query.arguments))

    def answer(self, answer: Answer) -> Answer:
        return texts(answer, self.there)


class Renamed:
    """The answers of a case to a tool that is told another name of its site."""

    def __init__(self, answers: Answers, renaming: Renaming) -> None:
        self._answers = answers
        self._renaming = renaming

    async def answer(self, query: Query, *, timeout_s: float) -> Answer:
        then = self._renaming.query(query)
        return self._renaming.answer(await self._answers.answer(then, timeout_s=timeout_s))


def scaled(factor: float) -> Change:
    """Every number of an answer times `factor`; a truth value is False for 0 and True else. Times
    stay as they are."""

    def change(_: Query, answer: Answer) -> Answer:
        return _numbers(answer, factor)

    return change


def emptied(_: Query, answer: Answer) -> Answer:
    """No series, readings or rows; of JSON every list without its members."""
    return () if isinstance(answer, tuple) else _hollow(answer)


def nulled(_: Query, answer: Answer) -> Answer:
    """As many rows, which say nothing; what has no rows is emptied."""
    if isinstance(answer, tuple) and all(isinstance(row, dict) for row in answer):
        return tuple(dict.fromkeys(row) for row in answer)
    return emptied(_, answer)


def texts(value: Any, change: Callable[[str], str]) -> Any:  # noqa: PLR0911 - a kind a return
    """A copy in which every text is changed; names of fields stay."""
    match value:
        case str():
            return change(value)
        case Series():
            return Series(_labels(value.labels, change), value.times, value.values)
        case Reading():
            return Reading(_labels(value.labels, change), value.value)
        case tuple():
            return tuple(texts(one, change) for one in value)
        case list():
            return [texts(one, change) for one in value]
        case dict():
            return {key: texts(one, change) for key, one in value.items()}
        case _:
            return value


def _labels(labels: Mapping[str, str], change: Callable[[str], str]) -> dict[str, str]:
    return {name: change(value) for name, value in labels.items()}


def _numbers(value: Any, factor: float) -> Any:  # noqa: PLR0911 - a kind a return
    match value:
        case bool():
            return factor > 0
        case int() if (factor * value).is_integer():
            # A count stays one: what is scaled is the figure, not its type.
            return int(factor * value)
        case int() | float():
            return factor * value
        case Series():
            return Series(value.labels, value.times, tuple(factor * v for v in value.values))
        case Reading():
            return Reading(value.labels, factor * value.value)
        case tuple():
            return tuple(_numbers(one, factor) for one in value)
        case list():
            return [_numbers(one, factor) for one in value]
        case dict():
            return {key: _numbers(one, factor) for key, one in value.items()}
        case _:
            return value


def _hollow(value: Any) -> Any:
    match value:
        case list():
            return []
        case dict():
            return {key: _hollow(one) for key, one in value.items()}
        case _:
            return value


def _replaced(text: str, before: str, after: str) -> str:
    for form in (str, str.lower, str.upper):
        old, new = form(before), form(after)
        pattern = rf"(?<![A-Za-z0-9]){re.escape(old)}(?![A-Za-z0-9])"
        text = re.sub(pattern, lambda _, new=new: new, text)  # type: ignore[misc]
    return text
