"""The short version of `python -m bench drift`: one small world, one change of each kind."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from bench.drift import measuring
from bench.drift.changed import Change, ChangedSource, site_of, target_of
from bench.world.world import WHOLE, Extent
from triage.adapters.memory import MemorySource
from triage.errors import SourceFailed, ToolFailed, ToolFailure
from triage.model.query import Call, Rows, Samples, Series
from triage.ports import WatchKind
from triage.watching.findings import finding

DAY_S = 86_400
SEED = 5
EXTENT = Extent(start=WHOLE.end - 12 * DAY_S, days=12, sites=1)
ALERTS = 420


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> measuring.Run:
    return asyncio.run(
        measuring.measure(
            seeds=(SEED,),
            injected_on=1,
            extent=EXTENT,
            alerts=ALERTS,
            each=1,
            folder=tmp_path_factory.mktemp("drift"),
            progress=lambda _done, _of: None,
            say=lambda _text: None,
        )
    )


@pytest.mark.timeout(300)  # a world is built first
def test_changes_of_every_kind_are_named_in_time(run: measuring.Run) -> None:
    figures = measuring.figures(run)
    assert figures["missed"] == []
    for kind, found in figures["injections"].items():
        assert found["changes"] >= 1, kind
        assert found["in_time"] >= 1, (kind, run.named)
        # So short a history leaves few evaluations after a change.
        assert found["named"] >= 1 or kind == "moved", (kind, run.named)
        assert found["named"] == found["named_within_30"], kind
        assert found["named_by_retest"] == found["retests"] >= 1, kind
    for one in run.named:
        if one.after is not None:
            assert one.at_site is not None
            assert one.at_site <= one.after <= one.seen


@pytest.mark.timeout(300)
def test_next_to_nothing_is_named_while_nothing_changes(run: measuring.Run) -> None:
    [quiet] = run.quiet
    assert quiet.evaluations > 1500
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


# --- figures ----------------------------------------------------------------------------------


def test_a_miss_and_false_alarms_fail_the_run(run: measuring.Run) -> None:
    good = measuring.figures(run)
    one = measuring.Named("unit m", "unit", run.named[0].node, 40, None, None, "", 40, False)
    missed = measuring.figures(replace(run, named=[*run.named, one]))
    assert not measuring.is_right(missed)
    late = one._replace(after=31, at_site=31)
    assert not measuring.is_right(measuring.figures(replace(run, named=[late])))
    example = finding(WatchKind.NULLS, run.named[0].node, "m: value", "", "nulls", at=START)
    false = run.quiet[0]._replace(findings=(example,) * 50)
    assert not measuring.is_right(measuring.figures(replace(run, quiet=[false])))
    by_retest = one._replace(retested=True)
    assert measuring.figures(replace(run, named=[by_retest]))["missed"] == []
    too_few = one._replace(concerned=5)
    assert measuring.figures(replace(run, named=[too_few]))["missed"] == []
    assert good["evaluations"] == run.quiet[0].evaluations
