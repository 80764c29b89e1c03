"""What one answer is reduced to: slots, fields, types, nulls, magnitudes."""

from __future__ import annotations

from datetime import timedelta
from math import inf, log10, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.watching.drift_world import READ, START, levels, samples, series, table
from triage.model.decision import (
    AnsweredBy,
    Asked,
    Failure,
    NodeId,
    NodeKind,
    NodeResult,
)
from triage.model.query import Aggregate, Call, Reading, Rows, Samples, Series, encode_answer
from triage.watching.features import (
    MAX_FIELDS,
    MAX_VALUES,
    FieldSeen,
    SlotSeen,
    answer_seen,
    failed_slot,
    node_seen,
    query_shape,
    slot_seen,
    slots_of,
)

CALL = Call("robots", "doors", '{"asset":"A-1","site":"north"}')


def field_of(slot: SlotSeen, name: str) -> FieldSeen:
    return next(field for field in slot.fields if field.name == name)


def answered(answer: object) -> SlotSeen:
    return answer_seen("robots doors", CALL, answer)


# --- slots ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "other"),
    [
        (samples(), samples(START + timedelta(days=9), 60.0)),
        (
            Samples("metrics", 'm{site="a",asset=~"x|y"}', START, START),
            Samples("metrics", 'm{asset=~"z",site="b\\"}{,"}', START, START),
        ),
        (
            Rows("tables", "SELECT a FROM t WHERE s = :s", (("s", "north"),)),
            Rows("tables", "SELECT a\n  FROM t WHERE s = :s", (("s", "south"),)),
        ),
        (CALL, CALL._replace(arguments='{"asset":"B-2","site":"south"}')),
    ],
)
def test_what_differs_in_values_only_is_one_slot(query: Samples, other: Samples) -> None:
    assert query_shape(query) == query_shape(other)


@pytest.mark.parametrize(
    ("query", "other"),
    [
        (samples(), samples(metric="queue_age")),
        (samples(), READ),
        (READ, READ._replace(function="min")),
        (
            Samples("metrics", 'm{site="a"}', START, START),
            Samples("metrics", 'm{site!="a"}', START, START),
        ),
        (Rows("tables", "SELECT a FROM t"), Rows("tables", "SELECT b FROM t")),
        (CALL, CALL._replace(tool="codes")),
        (CALL, CALL._replace(source="others")),
    ],
)
def test_what_asks_something_else_is_another_slot(query: Samples, other: Samples) -> None:
    assert query_shape(query) != query_shape(other)


def result(*asked: Asked, **more: object) -> NodeResult:
    return NodeResult(
        node=NodeId("obs_queue"),
        kind=NodeKind.OBSERVATION,
        layer=0,
        asked=asked,
        **more,  # type: ignore[arg-type]
    )


def test_queries_of_one_shape_are_numbered_in_the_order_asked() -> None:
    asked = [Asked(samples(START - timedelta(days=day))) for day in range(3)]
    names = [name for name, _ in slots_of(result(*asked, Asked(CALL)))]
    assert names == [
        "metrics queue_level{site}",
        "metrics queue_level{site} #2",
        "metrics queue_level{site} #3",
        "robots doors",
    ]


def test_what_a_fallback_asked_is_no_slot_of_the_tool() -> None:
    by_fallback = result(Asked(CALL), answered_by=AnsweredBy.FALLBACK)
    assert list(slots_of(by_fallback)) == []


def test_an_evaluation_keeps_the_tools_own_failure() -> None:
    failed = result(
        tool_failure=Failure(reason="tool_raised", detail="v1.py:3: KeyError"),
        answered_by=AnsweredBy.FALLBACK,
    )
    told = node_seen(failed, "north", START)
    assert (told.word, told.failure, told.detail) == (
        "failed",
        "tool_raised",
        "v1.py:3: KeyError",
    )


def test_a_query_that_failed_says_why() -> None:
    asked = Asked(CALL, failure=Failure(reason="source_timeout", detail="2 s"))
    slot = failed_slot("robots doors", asked)
    assert (slot.source, slot.failure, slot.detail) == ("robots", "source_timeout", "2 s")


# --- series -----------------------------------------------------------------------------------


def test_values_are_seen_by_their_magnitude() -> None:
    value = field_of(levels([10, 100, 1000, -100, 100]), "value")
    assert value.median == pytest.approx(2.0)
    assert value.p90 == pytest.approx(3.0)
    assert (value.values, value.nulls, value.types) == (5, 0, ("number",))


def test_nan_and_sentinels_are_nulls_and_no_values() -> None:
    value = field_of(levels([nan, -1, 9999, 10, inf, 0]), "value")
    assert value.nulls == 3
    assert value.median == pytest.approx(1.0)


def test_nothing_but_zeros_has_no_magnitude() -> None:
    value = field_of(levels([0, 0, 0]), "value")
    assert value.median is None
    assert value.values == 3


def test_a_counter_is_seen_by_what_it_grows() -> None:
    query = samples(metric="jobs_total")
    steady = Series({"__name__": "jobs_total"}, (0.0, 10.0, 20.0), (5e6, 5e6 + 500, 5e6 + 1000))
    reset = Series({"__name__": "jobs_total"}, (0.0, 10.0), (900.0, 3.0))
    slot = answer_seen("s", query, (steady, reset))
    assert field_of(slot, "value").median == pytest.approx(log10(50))
    assert field_of(slot, "value").values == 1


def test_samples_per_second_do_not_hang_on_the_window() -> None:
    short = answer_seen("s", samples(window_s=100.0), (series([1.0] * 10),))
    long = answer_seen("s", samples(window_s=1000.0), (series([1.0] * 100),))
    assert short.rate == long.rate == pytest.approx(-1.0)


def test_labels_are_fields() -> None:
    slot = levels([1.0], {"asset": "A", "zone": "1"})
    assert [field.name for field in slot.fields] == ["asset", "zone", "value"]


def test_an_empty_answer_has_no_fields_that_could_be_missed() -> None:
    slot = levels([])
    assert (slot.size, slot.rate, slot.holders) == (0, None, frozenset())


def test_readings_are_values_too() -> None:
    slot = answer_seen("s", READ, (Reading({"asset": "A"}, 100.0), Reading({"asset": "B"}, nan)))
    assert field_of(slot, "value").median == pytest.approx(2.0)
    assert field_of(slot, "value").nulls == 1


def test_of_many_samples_some_are_looked_at_from_first_to_last() -> None:
    rising = levels([10.0 ** (at / 10_000) for at in range(40_000)])
    value = field_of(rising, "value")
    assert value.values <= 2 * MAX_VALUES
    assert value.median == pytest.approx(2.0, abs=0.05)


# --- rows and JSON ----------------------------------------------------------------------------


def test_columns_have_types_and_nulls() -> None:
    slot = table(
        [
            {"id": "a", "n": 100, "at": "2026-03-01T00:00:00Z", "local": "2026-03-01 00:00:00"},
            {"id": "b", "n": None, "at": None, "local": None},
        ]
    )
    assert {field.name: (field.types, field.nulls) for field in slot.fields} == {
        "id": (("text",), 0),
        "n": (("number",), 1),
        "at": (("timestamp",), 1),
        "local": (("local timestamp",), 1),
    }


def test_a_missing_offset_is_another_type() -> None:
    with_offset, without = (
        table([{"at": "2026-03-01T00:00:00+01:00"}]),
        table([{"at": "2026-03-01T00:00:00"}]),
    )
    assert field_of(with_offset, "at").types != field_of(without, "at").types


def test_json_is_flattened_to_paths_with_their_holders() -> None:
    slot = answered({"as_of": "x", "doors": [{"door": "D1", "devices": [{"ready": True}]}]})
    assert {field.name: field.inside for field in slot.fields} == {
        "as_of": "",
        "doors": "",
        "doors[].door": "doors[]",
        "doors[].devices": "doors[]",
        "doors[].devices[].ready": "doors[].devices[]",
    }


def test_what_an_empty_list_would_hold_is_not_missing() -> None:
    slot = answered({"as_of": "x", "doors": []})
    assert "doors[]" not in slot.holders
    assert "" in slot.holders


def test_a_list_of_plain_values_is_a_field() -> None:
    slot = answered({"resets": [1, 10, 100]})
    assert field_of(slot, "resets[]").median == pytest.approx(1.0)


def test_truth_values_are_no_numbers() -> None:
    slot = answered({"on": True, "n": 1})
    assert field_of(slot, "on").types == ("bool",)
    assert field_of(slot, "on").median is None


def test_data_for_names_is_not_compared() -> None:
    slot = answered({f"asset-{number}": 1 for number in range(MAX_FIELDS + 5)})
    assert slot.wide
    assert slot.fields == ()


@pytest.mark.parametrize("name", ["id", "batch_id", "number"])
def test_numbers_that_are_names_have_no_level(name: str) -> None:
    rows = [{name: 5000 + row, "n": row % 3 + 1} for row in range(20)]
    assert field_of(table(rows), name).median is None
    assert field_of(table(rows), "n").median is not None
    assert field_of(table(rows), name).types == ("number",)


@pytest.mark.parametrize("answer", [None, 7, "text", [], [1, 2], {}, [[1], [2]], {"a": {"b": {}}}])
def test_any_json_can_be_looked_at(answer: object) -> None:
    assert answered(answer).slot == "robots doors"


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False)
    | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4)
    ),
    max_leaves=20,
)


@given(JSON)
def test_figures_of_any_answer_are_finite_and_bounded(answer: object) -> None:
    slot = answered(answer)
    assert len(slot.fields) <= MAX_FIELDS
    for field in slot.fields:
        assert 0 <= field.nulls <= field.values
        assert field.median is None or -400 < field.median < 400
        assert field.inside in slot.holders


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=50))
def test_bytes_give_what_the_answer_gives(values: list[float]) -> None:
    answer = (series(values),) if values else ()
    query = samples()
    assert slot_seen("s", query, encode_answer(answer)) == answer_seen("s", query, answer)


@pytest.mark.parametrize("body", [b"", b"{}", b'{"series":[1]}', b"nonsense"])
def test_bytes_that_are_no_answer_are_refused(body: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - what orjson says is its own
        slot_seen("s", samples(), body)


def test_aggregates_have_a_slot_of_their_own_by_function() -> None:
    read = Aggregate("metrics", 'm{site="a"}', START, START, "quantile", 0.9)
    assert query_shape(read) == "metrics quantile m{site}"
