from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.world.catalogue import CELL_STATES, PREFIX, SERIES
from bench.world.layout import ASSETS, EPOCH, SITES
from bench.world.metrics import WorldMetrics
from bench.world.series import CanonicalSeries
from bench.world.served import ServedSeries
from tests.unit.bench_world.small_minutes import small_minutes
from triage.adapters.memory import MemorySeries
from triage.errors import ToolFailed, ToolFailure
from triage.model.catalogue import Metric
from triage.model.query import Aggregate, AggregateFunction, Rows, Samples, Series, encode_answer
from triage.ports import Catalogued, Source
from triage.tool_api import aggregate, samples, selector

SERVED = ServedSeries(CanonicalSeries(small_minutes(sites=3, minutes=200), seed=7), seed=7)
METRICS = WorldMetrics(SERVED)
END = SERVED.canonical.end


def at(second: float) -> datetime:
    return datetime.fromtimestamp(EPOCH, UTC) + timedelta(seconds=second)


async def ask(query: Samples | Aggregate | Rows) -> tuple[Series, ...]:
    source: Source = METRICS
    answer: tuple[Series, ...] = await source.ask(query, timeout_s=1)
    return answer


async def test_its_life_is_a_sources() -> None:
    source: Source = WorldMetrics(SERVED, "dock")
    assert source.name == "dock"
    assert METRICS.name == "metrics"
    await source.open()
    await source.close()
    await source.close()


async def test_it_tells_its_metrics_by_name_and_labels() -> None:
    assert isinstance(METRICS, Catalogued)
    told = await METRICS.catalogue(timeout_s=1)
    assert set(told.metrics) == {PREFIX + name.partition(":")[0] for name in SERIES}
    assert told.metrics["dock_air_pressure"] == Metric(labels=("asset", "site"))
    assert told.metrics["dock_cell_state_seconds"].labels == ("asset", "site", "state")
    assert told.tables == {}


async def test_labels_and_their_order() -> None:
    found = await ask(samples("metrics", selector("dock_divert_attempts_total"), at(9000), 600))
    keys = [sorted(series.labels.items()) for series in found]
    assert keys == sorted(keys)
    assert len(found) == 3 * 60
    assert found[0].labels == {
        "__name__": "dock_divert_attempts_total",
        "asset": "CH-001",
        "site": "FC1",
    }


async def test_all_states_of_all_cells() -> None:
    found = await ask(
        samples("metrics", selector("dock_cell_state_seconds", site="FC2"), at(9000), 600)
    )
    assert [(one.labels["asset"], one.labels["state"]) for one in found] == [
        (cell, state) for cell in ASSETS["RC"] for state in sorted(CELL_STATES)
    ]
    for cell in ASSETS["RC"]:
        together = zip(*(one.values for one in found if one.labels["asset"] == cell), strict=True)
        assert {sum(states) for states in together} == {60_000.0}  # ms
    blocked = await ask(
        samples(
            "metrics",
            selector("dock_cell_state_seconds", site="FC2", asset="RC-03", state="blocked"),
            at(9000),
            600,
        )
    )
    assert list(blocked) == [
        one for one in found if (one.labels["asset"], one.labels["state"]) == ("RC-03", "blocked")
    ]


async def test_what_has_no_sample_is_absent() -> None:
    assert await ask(samples("metrics", "nobody_exports_this", at(9000), 600)) == ()
    assert await ask(samples("metrics", 'dock_air_pressure{site="FC9"}', at(9000), 600)) == ()
    assert await ask(samples("metrics", "dock_air_pressure", at(-1), 600)) == ()
    assert await ask(aggregate("metrics", "dock_air_pressure", at(-1), 600, "count")) == ()
    assert await ask(samples("metrics", "dock_air_pressure", at(9009), 8)) == ()
    assert len(await ask(samples("metrics", "dock_air_pressure", at(9001.5), 100))) == 3


@pytest.mark.parametrize(
    "query",
    [
        Rows("metrics", "select 1"),
        samples("metrics", "dock_air_pressure", at(9), 0),
        samples("metrics", "dock_air_pressure[5m]", at(9), 60),
        aggregate("metrics", "dock_air_pressure", at(9), 60, "quantile", 1.5),
        Samples("metrics", "dock_air_pressure", at(0).replace(tzinfo=None), at(60)),
    ],
)
async def test_the_tools_mistakes_are_refused(query: Samples | Aggregate | Rows) -> None:
    with pytest.raises(ToolFailed) as caught:
        await ask(query)
    assert caught.value.failure is ToolFailure.QUERY_REJECTED


LINE = re.compile(r"(\w+)\{(.*)\} (\S+) (\d+)")
TEXT = "".join(METRICS.backfill(2, [(EPOCH, EPOCH + 4000), (EPOCH + 3000, END)]))


def written() -> dict[str, tuple[Series, ...]]:
    """The back-filled text, by metric."""
    found: dict[str, dict[str, tuple[list[float], list[float]]]] = {}
    for line in TEXT.splitlines():
        if not line.startswith("#"):
            match = LINE.fullmatch(line)
            assert match is not None, line
            metric, pairs, value, time = match.groups()
            times, values = found.setdefault(metric, {}).setdefault(pairs, ([], []))
            times.append(float(time))
            values.append(float(value))
    return {
        metric: tuple(
            Series(
                {"__name__": metric, **dict(re.findall(r'(\w+)="([^"]*)"', pairs))},
                tuple(times),
                tuple(values),
            )
            for pairs, (times, values) in series.items()
        )
        for metric, series in found.items()
    }


MEMORY = MemorySeries({f'{metric}{{site="FC3"}}': series for metric, series in written().items()})


@settings(deadline=None, max_examples=80)
@given(
    series=st.sampled_from(sorted({PREFIX + name.partition(":")[0] for name in SERIES})),
    start=st.integers(0, 12_000),
    width=st.integers(1, 4000),
    function=st.sampled_from([None, "count", "min", "max", "sum", "quantile"]),
)
async def test_the_backfilled_text_says_the_same(
    series: str, start: int, width: int, function: AggregateFunction | None
) -> None:
    text = f'{series}{{site="{SITES[2].facts.name}"}}'
    query: Samples | Aggregate = samples("metrics", text, at(start + width), width)
    if function is not None:
        query = aggregate("metrics", text, at(start + width), width, function, 0.3)
    assert encode_answer(await ask(query)) == encode_answer(MEMORY(query))


def test_the_form_of_the_text() -> None:
    lines = TEXT.splitlines()
    assert lines[-1] == "# EOF"
    types = [line for line in lines if line.startswith("# TYPE")]
    assert len(types) == len(set(types)) == len({name.partition(":")[0] for name in SERIES})
    samples_ = [line.rpartition(" ")[::2] for line in lines if not line.startswith("#")]
    assert len({(series.rpartition(" ")[0], time) for series, time in samples_}) == len(samples_)


def test_backfill_of_some_series() -> None:
    text = "".join(METRICS.backfill(0, [(EPOCH + 60, EPOCH + 90)], {"air_pressure"}))
    assert text.startswith("# TYPE dock_air_pressure gauge\n")
    assert {line.split("{")[0] for line in text.splitlines()} <= {
        "# TYPE dock_air_pressure gauge",
        "dock_air_pressure",
        "# EOF",
    }
