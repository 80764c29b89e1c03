"""The short version of `python -m bench drift`: one small world, one change of each kind."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from bench.drift import measuring
from bench.drift.changed import Change, ChangedSource, site_of, target_of
from bench.drift.figures import figures, is_right
from bench.world.world import WHOLE, Extent
from triage.adapters.memory import MemorySource
from triage.errors import SourceFailed, ToolFailed, ToolFailure
from triage.model.query import Call, Rows, Samples, Series

DAY_S = 86_400
SEED = 6
EXTENT = Extent(start=WHOLE.end - 13 * DAY_S, days=13, sites=1)
ALERTS = 280
"""As few as leave every kind some evaluations beyond its warm-up."""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> measuring.Run:
    return measuring.measure(
        seeds=(SEED,),
        injected_on=1,
        extent=EXTENT,
        alerts=ALERTS,
        each=1,
        folder=tmp_path_factory.mktemp("drift"),
    )


@pytest.mark.timeout(300)  # a world is built first
def test_changes_of_every_kind_are_named_by_monitors_and_by_a_retest(run: measuring.Run) -> None:
    found = figures(run)
    assert found["not_named"] == []
    assert is_right(found)
    for kind, its in found["injected"].items():
        assert its["changes"] == its["changes_named_at_every_node"] >= 1, kind
        assert its["pairs"] == its["named_by_either"] >= its["changes"], kind
        assert its["named_within_30_evaluations"] >= 1, (kind, run.named)
        assert its["named_within_one_retest"] == its["pairs"], (kind, run.named)
    for one in run.named:
        if one.after is not None:
            assert one.at_site is not None
            assert one.at_site <= one.after <= one.seen


@pytest.mark.timeout(300)
def test_next_to_nothing_is_named_while_nothing_changes(run: measuring.Run) -> None:
    [quiet] = run.quiet
    assert quiet.evaluations > 1000
    assert len(quiet.findings) <= 1, quiet.findings


# --- what is injected -------------------------------------------------------------------------


WELL = Series({"__name__": "m", "asset": "A"}, (1.0,), (2.0,))
START = datetime(2026, 11, 1, tzinfo=UTC)
QUERY = Samples("metrics", 'm{site="FC1"}', START - timedelta(hours=1), START)


async def _asked(change: Change, query: Any, answer: Any) -> Any:
    source = ChangedSource(MemorySource(query.source, lambda _: answer))
    source.change = change
    return await source.ask(query, timeout_s=1.0)


async def test_a_unit_changes_at_its_site_only() -> None:
    change = Change(
        kind="unit", source="metrics", target="m", field="value", factors={"FC1": 1000.0}
    )
    assert (await _asked(change, QUERY, (WELL,)))[0].values == (2000.0,)
    other = QUERY._replace(selector='m{site="FC2"}')
    assert (await _asked(change, other, (WELL,)))[0].values == (2.0,)
    another = QUERY._replace(selector='n{site="FC1"}')
    assert (await _asked(change, another, (WELL,)))[0].values == (2.0,)


async def test_a_label_or_key_is_renamed_wherever_it_stands() -> None:
    change = Change(kind="renamed", source="metrics", target="m", field="asset")
    [found] = await _asked(change, QUERY, (WELL,))
    assert set(found.labels) == {"__name__", "asset_since_renamed"}
    call = Call("robots", "doors", '{"site":"FC1"}')
    change = Change(kind="renamed", source="robots", target="doors", field="door")
    found = await _asked(change, call, {"doors": [{"door": "D1"}]})
    assert found == {"doors": [{"door_since_renamed": "D1"}]}


async def test_a_renamed_column_is_refused_by_the_database_itself() -> None:
    asked: list[str] = []

    def answer(query: Any) -> Any:
        asked.append(query.sql)
        return ToolFailed(ToolFailure.QUERY_REJECTED, "no such column: lane_since_renamed")

    source = ChangedSource(MemorySource("tables", answer))
    source.change = Change(kind="renamed", source="tables", target="staging", field="lane")
    with pytest.raises(ToolFailed, match=r"no such column: lane$"):
        await source.ask(
            Rows("tables", "SELECT lane FROM staging WHERE lane = :lane"), timeout_s=1.0
        )
    assert asked == ["SELECT lane_since_renamed FROM staging WHERE lane_since_renamed = :lane"]


async def test_a_dead_source_answers_nothing() -> None:
    with pytest.raises(SourceFailed):
        await _asked(Change(kind="dead", source="metrics"), QUERY, (WELL,))


def test_sites_and_targets_are_read_from_queries() -> None:
    assert (site_of(QUERY), target_of(QUERY)) == ("FC1", "m")
    rows = Rows("tables", "SELECT a FROM staging", (("site", "FC2"),))
    assert (site_of(rows), target_of(rows)) == ("FC2", "staging")
    call = Call("robots", "doors", '{"site":"FC3"}')
    assert (site_of(call), target_of(call)) == ("FC3", "doors")
