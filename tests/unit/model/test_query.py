"""Queries have one digest, answers one byte form that loses nothing."""

from __future__ import annotations

import contextlib
import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from triage.model.query import (
    Aggregate,
    Call,
    Query,
    Reading,
    Rows,
    Samples,
    Series,
    decode_answer,
    encode_answer,
    query_digest,
    query_document,
    read_instant,
)

T0 = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)
SAMPLES = Samples("metrics", "up", T0, T0 + timedelta(seconds=60))
COUNT = Aggregate("metrics", "up", T0, T0 + timedelta(seconds=60), "count")
QUANTILE = COUNT._replace(function="quantile", quantile=0.5)
ROWS = Rows("db", "select :a, :b", (("a", 1), ("b", "x")))
CALL = Call("wms", "lookup", '{"id":7,"name":"x"}')
QUERIES: tuple[Query, ...] = (SAMPLES, COUNT, QUANTILE, ROWS, CALL)

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
labels = st.dictionaries(texts, texts, max_size=4)
values = st.floats()  # NaN and infinities included
points = st.lists(st.tuples(st.floats(allow_nan=False, allow_infinity=False), values), min_size=1)
series = st.builds(
    lambda own, pairs: Series(own, tuple(t for t, _ in pairs), tuple(v for _, v in pairs)),
    labels,
    points,
)
readings = st.builds(Reading, labels, values)
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts
)
documents = st.recursive(
    scalars, lambda inner: st.lists(inner) | st.dictionaries(texts, inner), max_leaves=10
)
answers: st.SearchStrategy[Any] = st.one_of(
    st.lists(series).map(tuple),
    st.lists(readings).map(tuple),
    st.lists(st.dictionaries(texts, scalars)).map(tuple),
    documents,
)

near_misses = st.lists(
    st.sampled_from(["NaN", "+Inf", "abc", "12", 1, 0.5, True, None, [], {}, {"a": "1"}, {"a": 1}])
    | st.lists(st.sampled_from([1, 0.5, True, "NaN", "1", None]), max_size=2),
    max_size=4,
)
bodies = documents | st.dictionaries(
    st.sampled_from(["series", "readings", "rows", "json", "more"]),
    documents | st.lists(near_misses, max_size=3) | st.lists(documents, max_size=3),
    min_size=1,
    max_size=2,
)


class TestAnswers:
    @given(answers)
    def test_nothing_is_lost(self, answer: Any) -> None:
        decoded = decode_answer(encode_answer(answer))
        assert type(decoded) is type(answer)
        assert sorted_repr(decoded) == sorted_repr(answer)

    @given(answers)
    def test_what_was_decoded_encodes_to_the_same_bytes(self, answer: Any) -> None:
        body = encode_answer(answer)
        assert encode_answer(decode_answer(body)) == body

    @given(answers)
    def test_bodies_are_json(self, answer: Any) -> None:
        json.loads(encode_answer(answer), parse_constant=pytest.fail)

    def test_the_order_of_labels_is_no_part_of_it(self) -> None:
        one = Series({"a": "1", "b": "2"}, (0.0,), (1.0,))
        other = Series({"b": "2", "a": "1"}, (0.0,), (1.0,))
        assert encode_answer((one,)) == encode_answer((other,))

    @pytest.mark.parametrize(
        "body",
        [
            b"",
            b"{",
            b"[]",
            b"{}",
            b'{"series":1}',
            b'{"series":[1]}',
            b'{"series":["abc"]}',
            b'{"series":[[{},[1],[]]]}',
            b'{"series":[[{},[true],[1]]]}',
            b'{"series":[[{},"1","1"]]}',
            b'{"series":[[{"a":1},[],[]]]}',
            b'{"series":[],"more":1}',
            b'{"else":[]}',
            b'{"readings":[[{},"x"]]}',
            b'{"readings":[[{},"nan"]]}',
            b'{"readings":[[{},true]]}',
            b'{"readings":[[{},[]]]}',
            b'{"readings":["ab"]}',
        ],
    )
    def test_other_bytes_are_refused(self, body: bytes) -> None:
        with pytest.raises(ValueError, match=r".+"):
            decode_answer(body)

    @given(bodies)
    @example({"series": [[{}, [0], ["NaN"]]]})
    def test_any_json_is_an_answer_or_refused(self, document: Any) -> None:
        """What is taken is an answer through and through: it has evidence that decodes to it."""
        try:
            answer = decode_answer(json.dumps(document).encode())
        except ValueError:
            return
        assert sorted_repr(decode_answer(encode_answer(answer))) == sorted_repr(answer)
        for item in answer if isinstance(answer, tuple) else ():
            if isinstance(item, Series):
                assert len(item.times) == len(item.values)
                assert {type(number) for number in (*item.times, *item.values)} <= {float}
            if isinstance(item, Reading):
                assert type(item.value) is float
            if isinstance(item, Series | Reading):
                assert {type(value) for value in item.labels.values()} <= {str}

    @given(st.binary())
    def test_any_bytes_are_an_answer_or_refused(self, body: bytes) -> None:
        with contextlib.suppress(ValueError):
            decode_answer(body)

    def test_what_has_no_json_form_is_refused(self) -> None:
        with pytest.raises(TypeError):
            encode_answer({"a": object()})


def sorted_repr(answer: Any) -> str:
    """`repr`, in which NaN equals NaN, with the keys of every mapping in order."""
    match answer:
        case Series():
            return f"Series({sorted(answer.labels.items())}, {answer.times}, {answer.values})"
        case Reading():
            return f"Reading({sorted(answer.labels.items())}, {answer.value})"
        case dict():
            return str([(key, sorted_repr(answer[key])) for key in sorted(answer)])
        case list() | tuple():
            return str([sorted_repr(item) for item in answer])
        case _:
            return repr(answer)


class TestDigests:
    def test_each_query_has_its_own(self) -> None:
        later = T0 + timedelta(seconds=61)
        others: list[Query] = [
            SAMPLES._replace(source="other"),
            SAMPLES._replace(selector="down"),
            SAMPLES._replace(start=T0 + timedelta(microseconds=1)),
            SAMPLES._replace(end=later),
            COUNT._replace(function="max"),
            QUANTILE._replace(quantile=0.9),
            ROWS._replace(sql="select 1"),
            ROWS._replace(params=(("a", 1), ("b", "y"))),
            ROWS._replace(params=(("a", "1"), ("b", "x"))),
            CALL._replace(tool="other"),
            CALL._replace(arguments='{"id":8,"name":"x"}'),
        ]
        assert len({query_digest(query) for query in (*QUERIES, *others)}) == 5 + len(others)

    def test_the_offset_a_time_is_written_in_is_no_part_of_it(self) -> None:
        east = timezone(timedelta(hours=9))
        moved = SAMPLES._replace(start=SAMPLES.start.astimezone(east))
        assert query_digest(moved) == query_digest(SAMPLES)

    def test_the_way_arguments_are_written_is_no_part_of_it(self) -> None:
        spaced = CALL._replace(arguments='{ "name": "x", "id": 7 }')
        assert query_digest(spaced) == query_digest(CALL)

    def test_it_is_the_one_recordings_are_keyed_by(self) -> None:
        """Fixed: changing it makes every stored recording unusable."""
        assert query_digest(SAMPLES) == (
            "f2239edade0102f88bf25d9729fc77747b299ace04d860e7b402e2d9a3f5ebf9"
        )

    @pytest.mark.parametrize("query", QUERIES, ids=lambda query: type(query).__name__)
    def test_documents_are_json(self, query: Query) -> None:
        document = query_document(query)
        assert json.loads(json.dumps(document)) == document
        assert document["source"] == query.source


@given(st.datetimes(timezones=st.sampled_from([UTC, timezone(timedelta(hours=-9, minutes=-30))])))
def test_an_instant_is_read_as_utc(moment: datetime) -> None:
    try:
        wanted = moment.astimezone(UTC)
    except OverflowError:
        wanted = None
    found = read_instant(moment.isoformat())
    assert found == wanted
    assert found is None or found.tzinfo is UTC


@pytest.mark.parametrize(
    "value", ["2026-06-01T12:31:00", "2026-06-01", "now", "", 1_780_000_000, None, ["2026"], T0]
)
def test_what_is_no_instant(value: object) -> None:
    assert read_instant(value) is None
