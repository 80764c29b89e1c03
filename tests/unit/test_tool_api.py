"""What compiled tools are given to ask and to judge with."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from math import inf, isnan, nan
from typing import Any, cast
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from triage.model.verdict import Truth
from triage.tool_api import (
    Aggregate,
    Call,
    Context,
    Rows,
    Samples,
    Series,
    aggregate,
    asset_id,
    asset_ids,
    call,
    compare,
    conclude,
    held,
    increase,
    last,
    mean,
    median,
    no_data,
    quantile,
    rows,
    same_time_weeks_before,
    samples,
    selector,
    span_s,
    trend,
    valid,
)

T0 = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)
names = st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_]*", fullmatch=True).filter(
    lambda name: name not in {"metric", "without", "matching", "not_matching"}
)
values = st.text(max_size=30) | st.text(alphabet='\\"\n{}=,n', max_size=12)
matchers = st.dictionaries(names, values, max_size=4)


def series(times: list[float], values: list[float]) -> Series:
    return Series({}, tuple(times), tuple(values))


MATCHER = re.compile(r'([a-zA-Z_]\w*)(=~|!~|!=|=)"((?:[^"\\\n]|\\.)*)"')
UNESCAPED = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}


def parsed(text: str) -> tuple[str, list[tuple[str, str, str]]]:
    """Metric and matchers of a selector, as PromQL reads it. Fails on anything left over."""
    metric, brace, rest = text.partition("{")
    found = []
    while brace and rest != "}":
        matched = MATCHER.match(rest)
        assert matched, f"no matcher at {rest!r}"
        name, op, quoted = matched.groups()
        value = re.sub(r"\\.", lambda escape: UNESCAPED[escape.group()], quoted, flags=re.DOTALL)
        found.append((name, op, value))
        rest = rest[matched.end() :]
        assert rest[:1] in {",", "}"}
        rest = rest.removeprefix(",")
    return metric, found


def _equal(matchers: dict[str, str]) -> str:
    keywords: dict[str, Any] = dict(matchers)
    return selector("up", **keywords)


class TestSelector:
    @given(matchers, matchers, matchers, matchers)
    def test_every_value_comes_back(
        self,
        equal: dict[str, str],
        without: dict[str, str],
        matching: dict[str, str],
        not_matching: dict[str, str],
    ) -> None:
        keywords: dict[str, Any] = dict(equal)
        text = selector(
            "up", without=without, matching=matching, not_matching=not_matching, **keywords
        )
        metric, found = parsed(text)
        assert metric == "up"
        expected = [
            (name, op, value)
            for op, group in (("=", equal), ("!=", without), ("=~", matching), ("!~", not_matching))
            for name, value in group.items()
        ]
        assert sorted(found) == sorted(expected)

    @given(matchers)
    def test_it_does_not_depend_on_the_order_of_matchers(self, equal: dict[str, str]) -> None:
        backwards = dict(reversed(list(equal.items())))
        assert _equal(equal) == _equal(backwards)

    def test_a_bare_metric_has_no_braces(self) -> None:
        assert selector("node_load1") == "node_load1"

    @pytest.mark.parametrize("metric", ["", "1up", "a-b", 'up{a="b"}', "up\n", "up[5m]"])
    def test_what_is_no_metric_name(self, metric: str) -> None:
        with pytest.raises(ValueError, match="not a metric name"):
            selector(metric)

    @pytest.mark.parametrize("label", ["", "1", "a-b", "a:b", 'a="b",c', "a\n"])
    def test_what_is_no_label_name(self, label: str) -> None:
        with pytest.raises(ValueError, match="not a label name"):
            selector("up", without={label: "x"})


class TestAsking:
    def test_windows_end_at_the_time_given(self) -> None:
        start = T0 - timedelta(seconds=300)
        assert samples("m", "up", T0, 300) == Samples("m", "up", start, T0)
        assert aggregate("m", "up", T0, 300, "quantile", 0.9) == Aggregate(
            "m", "up", start, T0, "quantile", 0.9
        )

    def test_equal_queries_are_equal_however_they_are_written(self) -> None:
        assert rows("db", "select :a, :b", a=1, b=2) == rows("db", "select :a, :b", b=2, a=1)
        assert call("wms", "find", a=1, b=2) == call("wms", "find", b=2, a=1)

    def test_values_are_parameters(self) -> None:
        assert rows("db", "select :a", a="'; drop") == Rows("db", "select :a", (("a", "'; drop"),))
        asked = call("wms", "find", name='"}')
        assert isinstance(asked, Call)
        assert json.loads(asked.arguments) == {"name": '"}'}


class TestCompare:
    @pytest.mark.parametrize(
        ("op", "below", "at", "above"),
        [
            (">", False, False, True),
            (">=", False, True, True),
            ("<", True, False, False),
            ("<=", True, True, False),
            ("==", False, True, False),
            ("!=", True, False, True),
        ],
    )
    def test_each_operator(self, op: str, below: bool, at: bool, above: bool) -> None:
        held = [compare("c", observed, op, 8.0).holds for observed in (7.0, 8.0, 9.0)]
        assert held == [below, at, above]

    @pytest.mark.parametrize("op", [">", ">=", "<", "<=", "==", "!="])
    def test_nan_holds_nothing(self, op: str) -> None:
        assert compare("c", nan, op, 8.0).holds is False

    def test_infinity_is_a_number(self) -> None:
        assert compare("c", inf, ">", 8.0).holds is True

    def test_another_operator(self) -> None:
        with pytest.raises(ValueError, match="use >"):
            compare("c", 1.0, "=>", 8.0)

    def test_it_keeps_what_it_saw(self) -> None:
        clause = compare("failing", 9.5, ">", 8.0, "percent")
        assert (clause.name, clause.observed, clause.op, clause.threshold, clause.unit) == (
            "failing",
            9.5,
            ">",
            8.0,
            "percent",
        )


class TestConclude:
    @given(st.lists(st.booleans(), min_size=1), st.booleans())
    def test_all_or_any(self, holds: list[bool], any_of: bool) -> None:
        clauses = [compare("c", float(held), ">", 0.5) for held in holds]
        verdict = conclude(clauses, "because", subject="s", any_of=any_of)
        expected = any(holds) if any_of else all(holds)
        assert verdict.value is (Truth.TRUE if expected else Truth.FALSE)
        assert verdict.clauses == tuple(clauses)
        assert (verdict.explanation, verdict.subject) == ("because", "s")

    def test_without_clauses(self) -> None:
        with pytest.raises(ValueError, match="at least one clause"):
            conclude([], "because")

    def test_no_data_is_neither(self) -> None:
        assert no_data("the exporter is silent").value is Truth.NO_DATA


def _series(*observed: float) -> Series:
    return Series({}, tuple(float(n) for n in range(len(observed))), observed)


class TestIncrease:
    @given(st.lists(st.integers(0, 1000), min_size=1), st.integers(0, 50))
    def test_growth_is_counted_across_restarts(self, steps: list[int], restart_at: int) -> None:
        """Built forwards: a counter that grows by known steps and is set back to 0 once."""
        counter, observed, grown = 5.0, [5.0], 0.0
        for number, step in enumerate(steps):
            if number == restart_at and step < counter:
                counter = 0.0
            counter += step
            grown += step
            observed.append(counter)
        assert increase(_series(*observed)) == grown

    @pytest.mark.parametrize("observed", [(), (7.0,)])
    def test_one_sample_tells_nothing(self, observed: tuple[float, ...]) -> None:
        assert isnan(increase(_series(*observed)))

    def test_a_nan_in_between_is_not_hidden(self) -> None:
        assert isnan(increase(_series(1.0, nan, 3.0)))

    def test_the_sum_is_exact(self) -> None:
        # One by one, each 1 would vanish beside 1e16.
        assert increase(_series(0.0, 1e16, 1.0, 2.0, 3.0)) == 1e16 + 4 - 1 + 1 - 1


class TestMeanAndLast:
    @given(st.lists(st.floats(-1e6, 1e6), min_size=1))
    def test_the_mean_does_not_depend_on_order(self, numbers: list[float]) -> None:
        assert mean(numbers) == mean(sorted(numbers))
        assert min(numbers) - 1e-9 <= mean(numbers) <= max(numbers) + 1e-9

    def test_what_is_no_number_is_passed_over(self) -> None:
        assert mean([1.0, nan, inf, -inf, 3.0]) == 2
        assert isnan(mean([nan]))
        assert isnan(mean([]))

    def test_last(self) -> None:
        assert last(_series(1.0, 2.0)) == 2
        assert isnan(last(_series()))


def test_span_is_what_was_really_seen() -> None:
    assert span_s(series([], [])) == 0.0
    assert span_s(series([5.0], [1.0])) == 0.0
    assert span_s(series([5.0, 6.0, 20.0], [1.0, nan, 3.0])) == 15.0


@example(per_s=8.313717395521324e-165, start=0.0, times=[0, 1, 328])
@example(per_s=5e-324, start=0.0, times=[0, 1, 2])
@given(
    per_s=st.floats(-1e3, 1e3),
    start=st.floats(-1e6, 1e6),
    times=st.lists(st.integers(0, 10_000), min_size=3, max_size=30, unique=True),
)
def test_trend_finds_the_line_it_was_drawn_from(
    per_s: float, start: float, times: list[int]
) -> None:
    ordered = [float(time) for time in sorted(times)]
    found = trend(series(ordered, [start + per_s * time for time in ordered]))
    assert found.per_s == pytest.approx(per_s, rel=1e-6, abs=1e-4)
    assert 0.0 <= found.r2 <= 1.0


@pytest.mark.parametrize(
    ("times", "values"),
    [
        ([], []),
        ([1.0, 2.0], [1.0, 2.0]),
        ([1.0, 2.0, 3.0], [1.0, nan, 3.0]),
        ([1.0, 1.0, 1.0], [1.0, 2.0, 3.0]),
        ([1.0, 2.0, 3.0], [4.0, 4.0, 4.0]),
    ],
)
def test_no_line_where_there_is_none_to_draw(times: list[float], values: list[float]) -> None:
    assert trend(series(times, values)) == (0.0, 0.0)


def test_a_trend_passes_over_what_is_no_number() -> None:
    found = trend(series([0.0, 1.0, 2.0, 3.0], [0.0, inf, 4.0, 6.0]))
    assert found.per_s == pytest.approx(2.0)
    assert found.r2 == pytest.approx(1.0)


@given(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=30), st.floats(0, 1))
def test_a_quantile_lies_between_neighbours_in_rank(values: list[float], q: float) -> None:
    found = quantile(values, q)
    ordered = sorted(values)
    below = int(q * (len(values) - 1))
    assert ordered[below] <= found <= ordered[min(below + 1, len(values) - 1)]
    assert quantile(values[::-1], q) == found
    assert quantile([*values, nan], q) == found


@pytest.mark.parametrize(
    ("values", "q", "expected"),
    [
        ([1, 2, 3, 4], 0.5, 2.5),
        ([4, 1, 3], 0.5, 3),
        ([10, 20], 0.1, 11),
        ([7], 0.95, 7),
        ([1, 2, 3, 4, 5], 1, 5),
    ],
)
def test_a_quantile_is_interpolated(values: list[float], q: float, expected: float) -> None:
    assert quantile(values, q) == expected


def test_there_is_no_quantile_of_nothing() -> None:
    assert isnan(median([]))
    assert isnan(median([nan, inf]))
    with pytest.raises(ValueError, match="must be in"):
        quantile([1.0], 1.5)


def counter(values: Sequence[float]) -> Series:
    return Series({}, tuple(float(i) for i in range(len(values))), tuple(map(float, values)))


def test_a_wrapped_counter_goes_on_and_a_restarted_one_begins_anew() -> None:
    wrapped = counter([65_500, 65_530, 20, 50])
    assert increase(wrapped, modulus=65_536, max_step=100) == 30 + 26 + 30
    assert increase(wrapped) == 30 + 20 + 30
    restarted = counter([40_000, 40_010, 5, 9])
    assert increase(restarted, modulus=65_536, max_step=100) == 10 + 5 + 4


@given(st.lists(st.integers(0, 500), min_size=2, max_size=50), st.integers(0, 65_535))
def test_what_wraps_counts_everything(steps: list[int], first: int) -> None:
    values = [first]
    for step in steps:
        values.append((values[-1] + step) % 65_536)
    assert increase(counter(values), modulus=65_536, max_step=500) == sum(steps)


def test_sentinels_are_no_values() -> None:
    assert valid([1.0, nan, -1.0, 9999.0, inf, 0.0], sentinels=(-1, 9999)) == (1.0, 0.0)


T0 = datetime(2026, 11, 1, 12, tzinfo=UTC)


def changes(*at: tuple[float, float]) -> Series:
    return Series({}, tuple(T0.timestamp() + t for t, _ in at), tuple(value for _, value in at))


def spans(state: Series, carry_s: float = 100) -> list[tuple[float, float, float]]:
    origin = T0.timestamp()
    found = held(state, T0, T0 + timedelta(seconds=60), carry_s=carry_s)
    return [(one.start - origin, one.end - origin, one.value) for one in found]


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (changes(), []),
        (changes((10, 1)), [(10, 60, 1)]),
        (changes((-50, 1), (10, 0), (30, 1)), [(0, 10, 1), (10, 30, 0), (30, 60, 1)]),
        (changes((0, 1)), [(0, 60, 1)]),
        (changes((-100, 1)), [(0, 60, 1)]),
        (changes((-101, 1)), []),
        (changes((-101, 1), (20, 0)), [(20, 60, 0)]),
        (changes((-5, 0), (10, 1), (20, 1), (30, 0)), [(0, 10, 0), (10, 30, 1), (30, 60, 0)]),
        (changes((60, 1)), []),
    ],
)
def test_a_state_holds_until_it_changes(
    state: Series, expected: list[tuple[float, float, float]]
) -> None:
    assert spans(state) == expected


@given(
    st.lists(
        st.tuples(st.integers(-200, 100), st.integers(0, 1)), max_size=20, unique_by=lambda c: c[0]
    )
)
def test_what_is_held_never_overlaps_nor_leaves_the_window(
    events: list[tuple[int, int]],
) -> None:
    found = spans(changes(*sorted(events)))
    assert all(0 <= start < end <= 60 for start, end, _ in found)
    assert all(
        one[1] < two[0] or (one[1] == two[0] and one[2] != two[2]) for one, two in pairwise(found)
    )


WORDS = {"CHUTE": "CH", "CELL": "RC"}
WIDTH = {"CH": 3, "RC": 2}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("CH-007", "CH-007"),
        ("ch7", "CH-007"),
        ("Chute 7", "CH-007"),
        ("chute_0007 sticks", "CH-007"),
        ("Cell-12", "RC-12"),
        ("Cell - 12", "Cell - 12"),
        ("DRV-0", "DRV-0"),
        ("the dock", "the dock"),
        ("", ""),
    ],
)
def test_an_asset_has_one_spelling(text: str, expected: str) -> None:
    assert asset_id(text, words=WORDS, width=WIDTH) == expected


def test_every_asset_in_free_text() -> None:
    text = "Cell 3 gripper, feeds ch12 and CHUTE-013"
    assert asset_ids(text, words=WORDS, width=WIDTH) == ("RC-03", "CH-012", "CH-013")


class InZone:
    """Only what `same_time_weeks_before` needs of a context."""

    def __init__(self, zone: str) -> None:
        self._zone = ZoneInfo(zone)

    def wall_clock(self, moment: datetime) -> datetime:
        return moment.astimezone(self._zone).replace(tzinfo=None)

    def localise(self, text: str, *, fold: int = 0) -> datetime:
        local = datetime.fromisoformat(text).replace(tzinfo=self._zone, fold=fold)
        return local.astimezone(UTC)


def test_a_weekly_slot_keeps_to_the_clocks_when_they_change() -> None:
    moment = datetime(2026, 11, 4, 15, tzinfo=UTC)  # ten o'clock in New York
    before = same_time_weeks_before(cast("Context", InZone("America/New_York")), moment, 2)
    assert before == (
        datetime(2026, 10, 28, 14, tzinfo=UTC),
        datetime(2026, 10, 21, 14, tzinfo=UTC),
    )
