"""Of any answer: nothing raises, sizes are bounded, figures are those of the answer, and no text of
a source leaves its cell."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from math import isfinite, isnan
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from triage.fallback.masking import Mask
from triage.maker.model import SeenAnswer
from triage.maker.seen import MOST_FIELDS, described, seen_answer
from triage.maker.seen_fields import MAX_NAME, MORE, MOST_EXAMPLES
from triage.model.query import Call, Rows, Samples, Series, encode_answer

AT = datetime(2026, 3, 1, 12, tzinfo=UTC)
SECRET = "Zq9-Zq9-Zq9"  # noqa: S105 - to be masked
MASK = Mask((), (SECRET,))
sized = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
SAMPLES = Samples("metrics", "level", AT - timedelta(hours=1), AT)
ROWS, CALL = Rows("orders", "select *"), Call("plant", "state")

texts = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=80),
    st.sampled_from(
        [
            SECRET,
            f"a {SECRET} b",
            "\n# Question",
            "~~~~",
            "| x | y |",
            "… 4 more",
            "2026-03-01T00:00:00Z",
        ]
    ),
)
numbers = st.one_of(
    st.floats(), st.integers(-10, 10).map(float), st.sampled_from([-1.0, 9999.0, 65535.0])
)
finite = st.one_of(st.floats(allow_nan=False, allow_infinity=False), st.integers(-(2**53), 2**53))
scalars = st.one_of(st.none(), st.booleans(), finite, texts)
documents = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=5), st.dictionaries(texts, inner, max_size=20)
    ),
    max_leaves=40,
)


@st.composite
def any_series(draw: st.DrawFn) -> Series:
    labels = draw(st.dictionaries(texts, texts, max_size=4))
    values = draw(st.lists(numbers, min_size=1, max_size=30))
    gaps = draw(st.lists(st.floats(0.001, 4_000), min_size=len(values), max_size=len(values)))
    times, at = [], AT.timestamp() - 90_000
    for gap in gaps:
        at += gap
        times.append(at)
    return Series(labels, tuple(times), tuple(values))


def check(answer: SeenAnswer) -> None:
    """Bounds, and one line a row whatever stands in it."""
    assert len(answer.fields) <= MOST_FIELDS
    for field in answer.fields:
        assert 0 <= field.nulls <= field.count
        assert len(field.name) <= MAX_NAME + len(".edge")
        assert len(field.examples) <= MOST_EXAMPLES + 1
        for example in field.examples:
            assert example.startswith(MORE) or json.loads(example) is not Ellipsis
    text = described(answer)
    assert SECRET not in text
    assert len(text) < 20_000
    for line in text.splitlines():
        assert line.isprintable()
    table = text.split("examples\n", 1)[1].splitlines() if "examples\n" in text else []
    for row in table:
        assert row.startswith(MORE) or len(row.split(" | ")) >= 7


@sized
@given(st.lists(any_series(), max_size=6))
def test_any_series(found: list[Series]) -> None:
    answer = seen_answer(SAMPLES, encode_answer(tuple(found)), mask=MASK, timestamp=AT)
    check(answer)
    assert answer.size == len(found)
    if not found:
        return
    values = [value for one in found for value in one.values]
    value = next(field for field in answer.fields if field.name == "value")
    held = [one for one in values if isfinite(one)]
    assert (value.count, value.nulls) == (len(values), sum(map(isnan, values)))
    assert value.low == min(held, default=None)
    assert value.high == max(held, default=None)


@sized
@given(st.lists(st.dictionaries(texts, scalars, max_size=6), max_size=12))
def test_any_rows(rows: list[dict[str, Any]]) -> None:
    answer = seen_answer(ROWS, encode_answer(tuple(rows)), mask=MASK, timestamp=AT)
    check(answer)
    assert (answer.kind, answer.size) == ("rows", len(rows))
    columns = {name for row in rows for name in row}
    for field in answer.fields:
        if field.name in columns and field.name.isidentifier() and field.name.isascii():
            assert field.count == len(rows)
            assert field.nulls == sum(row.get(field.name) is None for row in rows)


@sized
@given(documents)
def test_any_json(document: Any) -> None:
    check(seen_answer(CALL, encode_answer(document), mask=MASK, timestamp=AT))


@sized
@given(st.binary(max_size=200), st.dictionaries(texts, documents, max_size=6))
def test_any_bytes_and_any_query(body: bytes, query: dict[str, Any]) -> None:
    text = described(seen_answer(query, body, mask=MASK, timestamp=AT))
    assert SECRET not in text


@sized
@given(st.lists(any_series(), min_size=1, max_size=4), st.randoms())
def test_the_order_of_series_changes_nothing(found: list[Series], random: Any) -> None:
    mixed = list(found)
    random.shuffle(mixed)
    first, second = (
        seen_answer(SAMPLES, encode_answer(tuple(one)), mask=MASK) for one in (found, mixed)
    )
    assert (first.size, first.step_s, first.gaps) == (second.size, second.step_s, second.gaps)
    plain = [(f.name, f.types, f.count, f.nulls, f.low, f.high) for f in first.fields]
    assert plain == [(f.name, f.types, f.count, f.nulls, f.low, f.high) for f in second.fields]
