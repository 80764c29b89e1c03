"""The cheap instruments expose what prometheus_client's own would."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import generate_latest as plain_text
from prometheus_client.openmetrics.exposition import generate_latest as openmetrics_text
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from triage.telemetry.instruments import HotCounter, HotGauge, HotHistogram

WORDS = st.text(max_size=6)
BUCKETS = (0.0, 0.001, 0.005, 0.25, 1.0, 2.5, 1e7)


def openmetrics(registry: CollectorRegistry) -> str:
    page: bytes = openmetrics_text(registry)  # type: ignore[no-untyped-call]  # untyped library
    return page.decode()


def without_created(page: str) -> list[str]:
    """Creation times are the one thing the cheap instruments leave out.

    Only a line feed ends a line: label values may hold what `splitlines` takes for one.
    """
    return [line for line in page.split("\n") if "_created" not in line]


def assert_same_page(ours: CollectorRegistry, theirs: CollectorRegistry) -> None:
    assert openmetrics(ours).split("\n") == without_created(openmetrics(theirs))
    assert plain_text(ours).decode().split("\n") == without_created(plain_text(theirs).decode())
    parsed = text_string_to_metric_families(openmetrics(ours))  # type: ignore[no-untyped-call]  # same
    assert len(list(parsed)) == 1


@given(st.lists(st.tuples(WORDS, st.sampled_from(["a", "b"]), st.floats(0, 1e300)), max_size=40))
def test_a_counter_exposes_the_same_as_the_librarys(amounts: list[tuple[str, str, float]]) -> None:
    ours, theirs = CollectorRegistry(), CollectorRegistry()
    hot = HotCounter("things_total", "Things\nof \\ kinds.", ("kind", "size"), registry=ours)
    own = Counter("things_total", "Things\nof \\ kinds.", ("kind", "size"), registry=theirs)
    for kind, size, amount in amounts:
        hot.labels(kind, size).inc(amount)
        own.labels(kind, size).inc(amount)
    assert_same_page(ours, theirs)


@given(
    st.lists(
        st.tuples(
            WORDS,
            # Negative durations there are none; a negative sum would be no OpenMetrics.
            st.one_of(st.sampled_from(BUCKETS), st.floats(min_value=0)),
        ),
        max_size=60,
    )
)
def test_a_histogram_exposes_the_same_as_the_librarys(values: list[tuple[str, float]]) -> None:
    ours, theirs = CollectorRegistry(), CollectorRegistry()
    hot = HotHistogram("op_seconds", "An op.", ("op",), buckets=BUCKETS, registry=ours)
    own = Histogram("op_seconds", "An op.", ("op",), buckets=BUCKETS, registry=theirs)
    for op, value in values:
        hot.labels(op).observe(value)
        own.labels(op).observe(value)
    assert_same_page(ours, theirs)


@given(st.lists(st.floats(allow_nan=True), max_size=20))
def test_a_gauge_exposes_the_same_as_the_librarys(values: list[float]) -> None:
    ours, theirs = CollectorRegistry(), CollectorRegistry()
    hot = HotGauge("level", "A level.", ("of",), registry=ours)
    own = Gauge("level", "A level.", ("of",), registry=theirs)
    for value in values:
        hot.labels("x").set(value)
        own.labels("x").set(value)
    hot.labels("y").inc(3)
    hot.labels("y").dec()
    own.labels("y").inc(3)
    own.labels("y").dec()
    assert_same_page(ours, theirs)


def test_a_bucket_holds_its_upper_bound() -> None:
    registry = CollectorRegistry()
    hot = HotHistogram("op_seconds", "An op.", buckets=(1.0, 2.0), registry=registry)
    hot.labels().observe(1.0)
    hot.labels().observe(2.0)
    hot.labels().observe(2.1)
    got = [registry.get_sample_value("op_seconds_bucket", {"le": le}) for le in ("1.0", "2.0")]
    assert got == [1, 2]
    assert registry.get_sample_value("op_seconds_bucket", {"le": "+Inf"}) == 3
    assert registry.get_sample_value("op_seconds_count") == 3


def test_families_without_labels_are_exposed_at_zero() -> None:
    registry = CollectorRegistry()
    HotCounter("things_total", "Things.", registry=registry)
    HotGauge("level", "A level.", registry=registry)
    HotHistogram("op_seconds", "An op.", buckets=(1,), registry=registry)
    assert registry.get_sample_value("things_total") == 0
    assert registry.get_sample_value("level") == 0
    assert registry.get_sample_value("op_seconds_sum") == 0


@pytest.mark.parametrize("amount", [-1.0, float("nan")])
def test_counters_only_grow(amount: float) -> None:
    cell = HotCounter("things_total", "Things.", registry=CollectorRegistry()).labels()
    with pytest.raises(ValueError, match="cannot grow"):
        cell.inc(amount)
    assert cell.value == 0


def test_the_number_of_label_values_is_checked() -> None:
    hot = HotCounter("things_total", "Things.", ("kind",), registry=CollectorRegistry())
    with pytest.raises(ValueError, match="kind"):
        hot.labels("a", "b")


@pytest.mark.parametrize("buckets", [(), (2, 1), (1, 1), (-1, 1), (float("inf"),)])
def test_buckets_that_are_no_ladder_are_refused(buckets: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="buckets"):
        HotHistogram("op_seconds", "An op.", buckets=buckets, registry=CollectorRegistry())


def test_a_name_is_taken_once() -> None:
    registry = CollectorRegistry()
    HotCounter("things_total", "Things.", registry=registry)
    with pytest.raises(ValueError, match="Duplicated"):
        HotGauge("things", "Things.", registry=registry)


def test_retain_and_remove_bound_the_children() -> None:
    registry = CollectorRegistry()
    hot = HotCounter("things_total", "Things.", ("kind",), registry=registry)
    kept, gone = hot.labels("kept"), hot.labels("gone")
    hot.labels("removed").inc()
    kept.inc(5)
    hot.remove("removed")
    hot.remove("never there")
    hot.retain({("kept",), ("absent",)})
    gone.inc()  # whoever still holds a dropped child may write to it
    kept.inc()
    assert registry.get_sample_value("things_total", {"kind": "kept"}) == 6
    for kind in ("gone", "removed", "absent"):
        assert registry.get_sample_value("things_total", {"kind": kind}) is None
    assert hot.labels("gone").value == 0
