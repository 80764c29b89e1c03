"""Moving whatever is an instant by whole weeks: in queries, in answers, in text.

What is recognised:

- windows of metric queries, and the times of series;
- values of series and readings whose metric is named for a time (`…_time_seconds`,
  `…_timestamp`), where they are near enough to the case to be one;
- text, wherever it stands in rows, JSON, SQL params and arguments: `2026-11-18`, with a time of
  day after it or not, with an offset or not, and `20261118T150700Z`. Only the date changes, since
  a whole number of weeks keeps the time of day;
- numbers that are seconds, milliseconds, microseconds or nanoseconds since the epoch: in answers
  where the field's name says it is a time, in params and arguments wherever they are near the case.

What is not: the text of SQL and selectors, site facts and params, dates in words, and a date in
parts (year 2026, month 11).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import orjson

from triage.model.query import Aggregate, Answer, Call, Query, Reading, Rows, Samples, Series

DAY_S = 86_400
WEEK = timedelta(days=7)
ERA = timedelta(days=50 * 365)
"""A date further from the case is a placeholder, such as 9999-12-31, and stays."""

NAMED_NEAR_S = 20 * 365 * DAY_S  # seconds: a number in a field that is named for a time
NEAR_S = 400 * DAY_S  # seconds: any number that a query is made with
MOST_WEEKS = 1461  # 28 years, in which calendar and clock changes come round again

_SCALES = (1, 10**3, 10**6, 10**9)
_TIME_METRIC = re.compile(r"_(?:time|timestamp)(?:_seconds|_milliseconds|_ms)?$")
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_TIME_WORDS = frozenset(
    {
        *("at", "ts", "time", "timestamp", "epoch", "date", "when", "since", "until", "utc"),
        *("from", "start", "started", "begin", "began", "end", "ended", "opened", "closed"),
        *("created", "updated", "expires", "expiry", "due", "last", "seen", "latched"),
    }
)
_TEXT = re.compile(
    r"(?<![0-9])([12][0-9]{3})-([01][0-9])-([0-3][0-9])(?![0-9])"
    r"(?:[T ]([0-2][0-9]):([0-5][0-9])(?::([0-5][0-9])(?:[.,][0-9]+)?)?"
    r" ?(Z|UTC|[+-][0-9]{2}:?[0-9]{2})?)?"
)
_COMPACT = re.compile(r"(?<![0-9])([12][0-9]{3})([01][0-9])([0-3][0-9])(?=T[0-2][0-9][0-5][0-9])")

Number = Callable[[float, float], float]
Text = Callable[[str], str]


class Shift(NamedTuple):
    """`days` is a multiple of seven, negative to go back. `around` is where the case is before
    the shift: what is far from it is no instant of the case. Answers are moved by it, and with
    `back` queries to where they were asked."""

    days: int
    around: datetime

    @property
    def by(self) -> timedelta:
        return timedelta(days=self.days)

    @property
    def back(self) -> Shift:
        return Shift(-self.days, self.around + self.by)

    def text(self, text: str) -> str:
        """Every date in it moved, whatever stands around it."""
        return _COMPACT.sub(self._compact, _TEXT.sub(self._dashed, text))

    def query(self, query: Query) -> Query:
        match query:
            case Samples() | Aggregate():
                return query._replace(start=query.start + self.by, end=query.end + self.by)
            case Rows():
                moved = tuple((name, self._given(value)) for name, value in query.params)
                return query._replace(params=moved)
            case Call():
                given = _walked(orjson.loads(query.arguments), self.text, self._number_given)
                # As `tool_api.call` spells it: the same call must be the same query.
                spelled = json.dumps(given, sort_keys=True, separators=(",", ":"))
                return query._replace(arguments=spelled)

    def answer(self, query: Query, answer: Answer) -> Answer:
        """`query` is the one that was really asked."""
        match query:
            case Samples():
                return tuple(self._series(query, one) for one in answer)
            case Aggregate():
                return tuple(
                    Reading(one.labels, self._sample(query, one.labels, one.value))
                    for one in answer
                )
            case Rows() | Call():
                moved = _walked(answer, self.text, self._number_told)
                return tuple(moved) if isinstance(answer, tuple) else moved

    def _series(self, query: Samples, one: Series) -> Series:
        by = self.days * DAY_S
        return Series(
            one.labels,
            tuple(at + by for at in one.times),
            tuple(self._sample(query, one.labels, value) for value in one.values),
        )

    def _sample(self, query: Samples | Aggregate, labels: Mapping[str, str], value: float) -> float:
        metric = labels.get("__name__") or re.split(r"[{\[ ]", query.selector, maxsplit=1)[0]
        if not _TIME_METRIC.search(metric):
            return value
        return self._moved(value, NAMED_NEAR_S)

    def _given(self, value: Any) -> Any:
        return _walked(value, self.text, self._number_given)

    def _number_given(self, _: str, value: float) -> float:
        return self._moved(value, NEAR_S)

    def _number_told(self, name: str, value: float) -> float:
        return self._moved(value, NAMED_NEAR_S) if _is_time_name(name) else value

    def _moved(self, value: float, near_s: float) -> float:
        scale = _scale(value, self.around, near_s)
        return value + self.days * DAY_S * scale if scale else value

    def _dashed(self, found: re.Match[str]) -> str:
        day = _day(found, self.around)
        if day is None:
            return found[0]
        return (day + self.by).isoformat() + found[0][len("2026-11-18") :]

    def _compact(self, found: re.Match[str]) -> str:
        day = _day(found, self.around)
        return found[0] if day is None else (day + self.by).strftime("%Y%m%d")


def weeks_for(instants: Iterable[datetime], zone: str) -> int | None:
    """The fewest weeks, forward before back, by which all of `instants` (aware) can be moved
    without one of them getting another offset in `zone`; None when there are none."""
    place = ZoneInfo(zone)
    known = [(moment, moment.astimezone(place).utcoffset()) for moment in set(instants)]
    for weeks in (sign * count for count in range(1, MOST_WEEKS + 1) for sign in (1, -1)):
        by = weeks * WEEK
        try:
            if all((moment + by).astimezone(place).utcoffset() == was for moment, was in known):
                return weeks
        except OverflowError:  # at the end of the calendar
            continue
    return None


def instants_of(query: Query, answer: Answer, around: datetime, zone: str) -> Iterator[datetime]:
    """Every instant in a query and its answer, aware. Text without an offset is of the site's
    zone, and both readings of an hour that comes twice."""
    place = ZoneInfo(zone)
    found: list[datetime] = []

    def text(value: str) -> str:
        found.extend(_read(value, around, place))
        return value

    def number(near_s: float, value: float) -> float:
        scale = _scale(value, around, near_s)
        if scale:
            found.append(datetime.fromtimestamp(value / scale, UTC))
        return value

    def given(_: str, value: float) -> float:
        return number(NEAR_S, value)

    def told(name: str, value: float) -> float:
        return number(NAMED_NEAR_S, value) if _is_time_name(name) else value

    match query:
        case Samples():
            yield from (query.start, query.end)
            begin, end = (around + sign * ERA for sign in (-1, 1))
            yield from (
                datetime.fromtimestamp(at, UTC)
                for one in answer
                for at in one.times
                if begin.timestamp() <= at <= end.timestamp()
            )
        case Aggregate():
            yield from (query.start, query.end)
        case Rows():
            _walked(dict(query.params), text, given)
            _walked(answer, text, told)
        case Call():
            _walked(orjson.loads(query.arguments), text, given)
            _walked(answer, text, told)
    yield from found


def _read(text: str, around: datetime, place: ZoneInfo) -> Iterator[datetime]:
    for found in _TEXT.finditer(text):
        day = _day(found, around)
        if day is None:
            continue
        hour, minute, second = (int(part or 0) for part in found.group(4, 5, 6))
        if hour >= 24:  # noqa: PLR2004 - hours of a day
            continue
        local = datetime(day.year, day.month, day.day, hour, minute, second, tzinfo=place)
        if found[7] is None:
            yield local.replace(fold=0).astimezone(UTC)
            yield local.replace(fold=1).astimezone(UTC)
        else:
            yield local.replace(tzinfo=UTC) - _offset(found[7])
    for found in _COMPACT.finditer(text):
        day = _day(found, around)
        if day is not None:
            yield datetime(day.year, day.month, day.day, tzinfo=UTC)


def _offset(text: str) -> timedelta:
    if text in ("Z", "UTC"):
        return timedelta()
    sign = -1 if text[0] == "-" else 1
    return sign * timedelta(hours=int(text[1:3]), minutes=int(text[-2:]))


def _day(found: re.Match[str], around: datetime) -> date | None:
    """None for what is no date, and for a placeholder."""
    try:
        day = date(int(found[1]), int(found[2]), int(found[3]))
    except ValueError:
        return None
    return day if abs(day - around.date()) <= ERA else None


def _scale(value: float, around: datetime, near_s: float) -> int:
    """By how much a second counts when `value` is a time since the epoch, 0 when it is none."""
    return next(
        (scale for scale in _SCALES if abs(value / scale - around.timestamp()) <= near_s), 0
    )


def _is_time_name(name: str) -> bool:
    return any(word.lower() in _TIME_WORDS for word in _WORDS.findall(name))


def _walked(value: Any, text: Text, number: Callable[[str, float], float], name: str = "") -> Any:
    """A copy of JSON types; a number is told the name of the nearest field it stands in."""
    match value:
        case str():
            return text(value)
        case bool():
            return value
        case int() | float():
            return number(name, value)
        case list() | tuple():
            return [_walked(one, text, number, name) for one in value]
        case dict():
            return {key: _walked(one, text, number, key) for key, one in value.items()}
        case _:
            return value
