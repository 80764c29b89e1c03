"""Samples that a metrics backend is filled with, and what must come out of which window.

The answers are written down, not computed: they are what three implementations must agree on.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import inf, nan

from tests.servers import OldSeries
from triage.model.query import Aggregate, AggregateFunction, Answer, Reading, Samples, Series

SOURCE = "metrics"
T0 = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)
T0_MS = 1_767_614_400_000


def at(seconds: float) -> datetime:
    """T0 plus `seconds`, to the microsecond."""
    return T0 + timedelta(microseconds=round(seconds * 1_000_000))


def _old(metric: str, labels: dict[str, str], *points: tuple[float, float]) -> OldSeries:
    return OldSeries(metric, labels, [(T0_MS + round(s * 1000), value) for s, value in points])


STORED = (
    _old("level", {"host": "b"}, (15, 20.5), (30, 30.25)),
    _old("level", {"host": "a"}, (0, 1), (15, 2), (30, 3), (45.123, 4)),
    _old("gappy", {"host": "a"}, (0, 1), (300, 2)),
    _old("ended", {"host": "a"}, (0, 1), (15, 1)),
    _old("odd", {"host": "a"}, (0, nan), (15, inf), (30, -inf), (45, 7)),
    _old("only_nan", {"host": "a"}, (0, nan)),
    _old("restarted_total", {"host": "a"}, (0, 90), (15, 100), (30, 4), (45, 10)),
    _old("quoted", {"path": 'C:\\new "x"\n{}'}, (0, 5)),
)
"""Listed so that the order of writing is not the order of labels."""

T0_S = T0_MS / 1000


def in_memory() -> dict[str, tuple[Series, ...]]:
    """`STORED` by the selectors that the cases use."""
    found: dict[str, tuple[Series, ...]] = {}
    for old in STORED:
        series = Series(
            {"__name__": old.metric, **old.labels},
            tuple(ms / 1000 for ms, _ in old.samples),
            tuple(float(value) for _, value in old.samples),
        )
        found[old.metric] = (*found.get(old.metric, ()), series)
        if host := old.labels.get("host"):
            found[f'{old.metric}{{host="{host}"}}'] = (series,)
    return found


@dataclass(frozen=True, slots=True)
class MetricsCase:
    about: str
    query: Samples | Aggregate
    answer: Answer


def _raw(selector: str, start: float, end: float) -> Samples:
    return Samples(SOURCE, selector, at(start), at(end))


def _one(metric: str, *points: tuple[float, float]) -> tuple[Series, ...]:
    return (_series(metric, "a", *points),)


def _series(metric: str, host: str, *points: tuple[float, float]) -> Series:
    return Series(
        {"__name__": metric, "host": host},
        tuple((T0_MS + round(second * 1000)) / 1000 for second, _ in points),
        tuple(float(value) for _, value in points),
    )


def _agg(
    selector: str, start: float, end: float, function: AggregateFunction, q: float = 0.0
) -> Aggregate:
    return Aggregate(SOURCE, selector, at(start), at(end), function, q)


def _value(value: float) -> tuple[Reading, ...]:
    return (Reading({"host": "a"}, float(value)),)


A = 'level{host="a"}'
ODD = 'odd{host="a"}'

METRICS_CASES = (
    MetricsCase("left edge out, right edge in", _raw(A, 0, 30), _one("level", (15, 2), (30, 3))),
    MetricsCase("a millisecond more", _raw(A, -0.001, 0), _one("level", (0, 1))),
    MetricsCase("a millisecond of window", _raw(A, 45.122, 45.123), _one("level", (45.123, 4))),
    MetricsCase("a millisecond before a sample", _raw(A, 30, 45.122), ()),
    MetricsCase("from a sample on", _raw(A, 45.123, 60), ()),
    MetricsCase("start within a millisecond", _raw(A, 0.0004, 15), _one("level", (15, 2))),
    MetricsCase("end within a millisecond", _raw(A, 30, 45.1239), _one("level", (45.123, 4))),
    MetricsCase(
        "series in the order of their labels",
        _raw("level", 0, 30),
        (
            _series("level", "a", (15, 2), (30, 3)),
            _series("level", "b", (15, 20.5), (30, 30.25)),
        ),
    ),
    MetricsCase(
        "a series without samples is no series", _raw("level", 30, 60), _one("level", (45.123, 4))
    ),
    MetricsCase("gaps are not filled", _raw("gappy", 0, 299.999), ()),
    MetricsCase("both sides of a gap", _raw("gappy", -1, 300), _one("gappy", (0, 1), (300, 2))),
    MetricsCase("an ended series stays ended", _raw("ended", 15, 120), ()),
    MetricsCase("an unknown metric", _raw("nobody_exports_this", 0, 60), ()),
    MetricsCase(
        "NaN and infinities",
        _raw(ODD, -1, 45),
        _one("odd", (0, nan), (15, inf), (30, -inf), (45, 7)),
    ),
    MetricsCase(
        "a counter's reset is there to see",
        _raw("restarted_total", -1, 45),
        _one("restarted_total", (0, 90), (15, 100), (30, 4), (45, 10)),
    ),
    MetricsCase("count, left edge out", _agg(A, 0, 30, "count"), _value(2)),
    MetricsCase("count, left edge just in", _agg(A, -0.001, 30, "count"), _value(3)),
    MetricsCase("count, right edge just out", _agg(A, -0.001, 29.999, "count"), _value(2)),
    MetricsCase("count, the shortest window", _agg(A, 45.121, 45.123, "count"), _value(1)),
    MetricsCase("count of nothing is no reading", _agg(A, 45.123, 60, "count"), ()),
    MetricsCase("sum, left edge out", _agg(A, 0, 45.123, "sum"), _value(9)),
    MetricsCase("min, left edge out", _agg(A, 0, 45.123, "min"), _value(2)),
    MetricsCase("max", _agg(A, 0, 45.123, "max"), _value(4)),
    MetricsCase("max, right edge out", _agg(A, 0, 45.122, "max"), _value(3)),
    MetricsCase("quantile", _agg(A, 0, 45.123, "quantile", 0.25), _value(2.5)),
    MetricsCase("quantile 0", _agg(A, 0, 45.123, "quantile", 0.0), _value(2)),
    MetricsCase("quantile 1", _agg(A, 0, 45.123, "quantile", 1.0), _value(4)),
    MetricsCase("min passes over NaN", _agg(ODD, -1, 45, "min"), _value(-inf)),
    MetricsCase("max passes over NaN", _agg(ODD, -1, 45, "max"), _value(inf)),
    MetricsCase("min of NaN alone", _agg("only_nan", -1, 45, "min"), _value(nan)),
    MetricsCase("sum of opposite infinities", _agg(ODD, 0, 45, "sum"), _value(nan)),
    MetricsCase("count counts NaN", _agg(ODD, -1, 45, "count"), _value(4)),
    MetricsCase(
        "readings in the order of their labels",
        _agg("level", 0, 30, "sum"),
        (Reading({"host": "a"}, 5.0), Reading({"host": "b"}, 50.75)),
    ),
    MetricsCase("aggregate of an unknown metric", _agg("nobody_exports_this", 0, 60, "count"), ()),
)

REFUSED_CASES: dict[str, Samples | Aggregate] = {
    "empty": _raw(A, 30, 30),
    "backwards": _raw(A, 30, 15),
    "empty aggregate": _agg(A, 30, 30, "count"),
    "start without an offset": Samples(SOURCE, A, T0.replace(tzinfo=None), at(30)),
    "end without an offset": Aggregate(SOURCE, A, at(-9), T0.replace(tzinfo=None), "count"),
    "quantile over 1": _agg(A, 0, 30, "quantile", 1.5),
    "quantile that is no number": _agg(A, 0, 30, "quantile", nan),
}
