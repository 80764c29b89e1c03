"""Whatever arrives, intake answers with arrivals or a PayloadError that names a field."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from itertools import islice

import orjson
import pytest

from tests.payload_mutations import base_payloads, mutations
from tests.unit.intake.payloads import RECEIVED_AT, read
from triage.errors import PayloadError
from triage.intake.documents import MAX_RAW_BYTES
from triage.intake.fields import default_field_maps
from triage.intake.formats import PARSERS, parse
from triage.intake.request import IntakeRequest, Parsed
from triage.model.alert import Arrival, ArrivalKind, occurrence_id

CASES = 12_000


def _assert_storable(text: str, limit: int) -> None:
    assert len(text) <= limit
    assert "\0" not in text
    text.encode()


def _assert_sound(arrival: Arrival) -> None:
    assert arrival.fired_at.utcoffset() == timedelta(0)
    assert 1970 <= arrival.fired_at.year <= 2200
    if arrival.observed_at is not None:
        assert arrival.observed_at.utcoffset() == timedelta(0)
    for text in (arrival.alarm, arrival.site, arrival.entity):
        _assert_storable(text, 256)
    _assert_storable(arrival.fingerprint, 512)
    _assert_storable(arrival.tenant, 600)
    _assert_storable(arrival.delivery_key, 64)
    assert arrival.fingerprint
    assert len(arrival.labels) <= 128
    for name, value in arrival.labels.items():
        _assert_storable(name, 256)
        _assert_storable(value, 4096)
    for value in arrival.annotations.values():
        _assert_storable(value, 16384)
    orjson.dumps(dict(arrival.labels))
    orjson.dumps(dict(arrival.annotations))
    orjson.loads(arrival.raw)
    assert len(arrival.raw) <= MAX_RAW_BYTES
    if arrival.starts_at_ns is not None:
        assert 0 <= arrival.starts_at_ns < 2**63
        occurrence_id(
            arrival.integration, arrival.tenant, arrival.fingerprint, arrival.starts_at_ns
        )
    if arrival.kind is ArrivalKind.FIRING:
        assert arrival.alarm.strip()
    assert bool(arrival.event) == (arrival.kind is ArrivalKind.EVENT)


def _assert_explained(error: PayloadError) -> None:
    assert error.field
    assert error.problem
    assert str(error).isprintable()
    assert len(str(error)) < 1000


def _assert_complete(parsed: Parsed) -> None:
    rejected = [a for a in parsed.arrivals if a.event == "rejected"]
    assert len(rejected) == len(parsed.rejected)
    assert all(row.field and row.problem for row in parsed.rejected)
    assert parsed.arrivals or parsed.subscription is not None
    truncated = [a for a in parsed.arrivals if a.event == "truncated"]
    assert len(truncated) == (1 if parsed.truncated else 0)


@pytest.mark.parametrize("base", base_payloads(), ids=lambda base: base.format)
def test_undamaged_payloads_are_taken(base: tuple[str, dict[str, str], object]) -> None:
    name, headers, document = base
    parsed = read(name, document, headers=headers)
    assert not parsed.rejected
    _assert_complete(parsed)
    for arrival in parsed.arrivals:
        _assert_sound(arrival)


def test_damaged_payloads_never_surprise() -> None:
    maps = default_field_maps()
    answers: Counter[tuple[str, bool]] = Counter()
    mixed = 0
    for name, headers, body in islice(mutations(20261129), CASES):
        request = IntakeRequest(format=name, body=body, headers=headers, received_at=RECEIVED_AT)
        try:
            parsed = parse(request, maps[name])
        except PayloadError as error:
            _assert_explained(error)
            answers[name, False] += 1
            continue
        answers[name, True] += 1
        mixed += bool(parsed.rejected)
        _assert_complete(parsed)
        for arrival in parsed.arrivals:
            _assert_sound(arrival)
    # The run proves something only if every format was both taken and refused, often.
    assert all(answers[name, taken] > 100 for name in PARSERS for taken in (True, False))
    assert mixed > 100


def test_the_stream_is_the_same_for_a_seed() -> None:
    assert list(islice(mutations(7), 50)) == list(islice(mutations(7), 50))
    assert list(islice(mutations(7), 50)) != list(islice(mutations(8), 50))


def test_headers_can_be_sent_over_http() -> None:
    for _, headers, _ in islice(mutations(3), 2000):
        for name, value in headers.items():
            assert name == name.lower()
            assert value.isascii()
            assert value == "" or value.isprintable()
