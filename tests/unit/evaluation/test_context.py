"""What a tool is told, and nothing else."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.evaluation.virtual_time import on_virtual_time
from tests.unit.evaluation.world import (
    FIRED_AT,
    World,
    above,
    alert,
    asks,
    by_node,
    library,
    memory,
    node,
    one_node,
    procedure,
    query,
    reasons,
    tool,
    value,
)
from triage.evaluation.context import ToolContext
from triage.model.query import Query
from triage.model.site import Site
from triage.model.verdict import Verdict
from triage.sop.procedure import SiteProfile
from triage.tool_api import Context, compare, conclude


def context(zone: str = "UTC") -> ToolContext:
    profile = SiteProfile(
        site=Site(name="north", zone=zone, units={"speed": "m/s"}, facts={"floor": 2}),
        params={"limit": 8},
        parents={},
        known=True,
    )
    return ToolContext(alert(labels={"job": "über"}), profile)


def test_params_site_entity_and_labels() -> None:
    one = context()
    assert one.params == {"limit": 8}
    assert (one.site.name, one.site.units, one.site.facts) == (
        "north",
        {"speed": "m/s"},
        {"floor": 2},
    )
    assert one.entity == "unit-7"
    assert one.labels == {"job": "über"}


@on_virtual_time
async def test_the_time_is_the_alerts_own_and_the_place_its_site() -> None:
    seen: list[tuple[str, datetime]] = []

    def queries(warehouse: str, timestamp: datetime, context: Context) -> list[Query]:
        seen.append((warehouse, timestamp))
        return []

    def evaluate(warehouse: str, timestamp: datetime, context: Context) -> Verdict:
        seen.append((warehouse, timestamp))
        return conclude([compare("one", 1, "==", 1)], "")

    one = tool("a", queries, evaluate)
    await World(sop=one_node(one), library=library(one), sources=[]).decide(alert(site="south"))
    assert seen == [("south", FIRED_AT)] * 2


def reading(*parents: str, told: dict[str, Any], reads: tuple[str, ...] = ()) -> Any:
    """A tool for node `c` that notes the parents it sees."""

    def evaluate(warehouse: str, timestamp: datetime, context: Context) -> Verdict:
        told.update({name: verdict.value.word for name, verdict in context.parents.items()})
        return conclude([compare("one", 1, "==", 1)], "")

    return tool("c", asks(), evaluate, reads_parents=reads)


@pytest.mark.parametrize(
    ("reads", "seen"),
    [
        ((), {}),
        (("a",), {"a": "true"}),
        (("a", "b"), {"a": "true", "b": "no_data"}),
        (("failed", "never"), {}),
    ],
)
@pytest.mark.parametrize("prefetch", ["layer", "subtree"])
@on_virtual_time
async def test_only_named_parents_that_answered_are_seen(
    prefetch: Any, reads: tuple[str, ...], seen: dict[str, str]
) -> None:
    told: dict[str, Any] = {}
    world = World(
        sop=procedure(
            node("a", true=["c"], false=["never"]),
            node("b", no_data=["c"]),
            node("failed", failed=["c"]),
            node("never"),
            node("c"),
            entry=["a", "b", "failed"],
        ),
        library=library(
            tool("a"), tool("b"), tool("failed", lambda *_: 1 / 0), tool("never"),
            reading(told=told, reads=reads),
        ),
        sources=[memory({"a": value(20)})],
        prefetch=prefetch,
    )  # fmt: skip
    decided = await world.decide()
    assert reasons(decided.decision.nodes)["c"] == "true"
    assert told == seen


@pytest.mark.parametrize("prefetch", ["layer", "subtree"])
@on_virtual_time
async def test_queries_that_read_a_parent_fail_the_node_in_either_mode(prefetch: Any) -> None:
    """Else a tool would ask differently by mode, and decide differently."""

    def queries(warehouse: str, timestamp: datetime, context: Context) -> list[Query]:
        return [query("x")] if context.parents else []

    world = World(
        sop=procedure(node("a", true=["b"]), node("b")),
        library=library(tool("a"), tool("b", queries, above("x"), reads_parents=["a"])),
        sources=[memory({"a": value(20), "x": value(20)})],
        prefetch=prefetch,
    )
    decided = await world.decide()
    assert reasons(decided.decision.nodes) == {"a": "true", "b": "tool_raised"}
    failure = by_node(decided)["b"].failure
    assert failure is not None
    assert "queries() reads context.parents" in failure.detail


@on_virtual_time
async def test_an_answer_to_what_was_not_asked_fails_the_node() -> None:
    """Also to what another node asked: else a verdict would hang on who else was reached."""
    tools = [tool("a"), tool("b", asks("b"), above("a"))]
    world = World(
        sop=one_node(*tools),
        library=library(*tools),
        sources=[memory({"a": value(20), "b": value(20)})],
    )
    decided = await world.decide()
    assert reasons(decided.decision.nodes) == {"a": "true", "b": "tool_raised"}
    failure = by_node(decided)["b"].failure
    assert failure is not None
    assert "LookupError: queries() did not return Rows" in failure.detail


@pytest.mark.parametrize(
    ("text", "fold", "utc"),
    [
        ("2026-01-15T12:00:00", 0, "2026-01-15T11:00"),
        ("2026-07-15T12:00:00", 0, "2026-07-15T10:00"),
        # Clocks go back at 03:00 local on 25 October: 02:30 comes twice.
        ("2026-10-25T02:30:00", 0, "2026-10-25T00:30"),
        ("2026-10-25T02:30:00", 1, "2026-10-25T01:30"),
        # Clocks go forward at 02:00 on 29 March: 02:30 never comes; either reading is one.
        ("2026-03-29T02:30:00", 0, "2026-03-29T01:30"),
        ("2026-03-29T02:30:00", 1, "2026-03-29T00:30"),
        ("2026-10-25T02:30:00+02:00", 1, "2026-10-25T00:30"),
        ("2026-10-25T02:30:00Z", 0, "2026-10-25T02:30"),
        ("2026-10-25 02:30", 1, "2026-10-25T01:30"),
    ],
)
def test_a_local_time_is_taken_in_the_sites_zone(text: str, fold: int, utc: str) -> None:
    moment = context("Europe/Berlin").localise(text, fold=fold)
    assert moment.tzinfo is UTC
    assert moment == datetime.fromisoformat(utc).replace(tzinfo=UTC)


def test_what_is_no_time_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="yesterday"):
        context().localise("yesterday")


@given(
    st.datetimes(datetime(2026, 1, 1), datetime(2027, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001 - hypothesis takes bounds without offset
    st.sampled_from(
        ["UTC", "Europe/Berlin", "Australia/Sydney", "America/New_York", "Asia/Kolkata"]
    ),
)
def test_what_clocks_show_leads_back_to_the_moment(moment: datetime, zone: str) -> None:
    one = context(zone)
    shown = one.wall_clock(moment)
    assert shown.tzinfo is None
    assert one.localise(shown.isoformat(), fold=shown.fold) == moment


def test_the_hour_that_comes_twice_is_told_apart() -> None:
    one = context("America/New_York")
    first = one.wall_clock(datetime(2026, 11, 1, 5, 30, tzinfo=UTC))
    second = one.wall_clock(datetime(2026, 11, 1, 6, 30, tzinfo=UTC))
    assert (first.isoformat(), second.isoformat()) == ("2026-11-01T01:30:00",) * 2
    assert (first.fold, second.fold) == (0, 1)
