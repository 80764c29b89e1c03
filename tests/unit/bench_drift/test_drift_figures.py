"""What `bench drift` counts: its words are those of what is asked of it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from bench.drift.changed import Change
from bench.drift.figures import figures, in_words, is_right
from bench.drift.measuring import Run
from bench.drift.named import Named, Quiet
from bench.drift.retesting import Cases
from bench.replay.alerts import HistoricalAlert
from tests.unit.evaluation.world import World, above, asks, library, memory, one_node, tool, value
from triage.engine.engine import Decided
from triage.model.decision import NodeId
from triage.ports import WatchKind
from triage.watching.findings import finding

NODE = NodeId("n")
SEED = 6
START = datetime(2026, 11, 1, tzinfo=UTC)
UNNAMED = Named(SEED, "unit m", "unit", NODE, 40, None, None, "", 40, False, 2)


def with_named(*some: Named) -> dict[str, Any]:
    return figures(Run(named=[*some]))


def test_what_is_named_by_neither_is_told_with_why() -> None:
    found = with_named(UNNAMED._replace(retested=True), UNNAMED)
    assert not is_right(found)
    assert found["injected"]["unit"]["pairs"] == 2
    [miss] = found["not_named"]
    assert (miss["seed"], miss["change"], miss["node"]) == (SEED, "unit m", "n")
    assert "40 evaluations" in miss["why"]
    assert "re-test of 2 cases" in miss["why"]
    [line] = [line for line in in_words(found) if line.startswith("not named")]
    assert miss["why"] in line


def test_it_is_one_retest_or_30_evaluations_of_the_node() -> None:
    assert is_right(with_named(UNNAMED._replace(after=30, at_site=30)))
    assert is_right(with_named(UNNAMED._replace(retested=True)))
    # Evaluations at other sites count as well, though they could not show it.
    late = with_named(UNNAMED._replace(after=31, at_site=9))
    assert not is_right(late)
    assert "no monitor before 31 evaluations" in late["not_named"][0]["why"]


def test_what_could_not_be_told_is_no_miss_and_is_said() -> None:
    untold = with_named(UNNAMED._replace(seen=5, concerned=5, retested=None, cases=0))
    assert is_right(untold)
    assert untold["injected"]["unit"]["untold"] == 1
    assert "no case asked it" in untold["not_named"][0]["why"]
    assert not is_right(with_named(UNNAMED._replace(seen=5, retested=False)))


def test_more_than_one_false_alarm_in_10000_fails_the_run() -> None:
    example = finding(WatchKind.NULLS, NODE, "m: value", "", "nulls", at=START)
    for count, right in ((1, True), (2, False)):
        quiet = Quiet(SEED, 2600, 10_000, (example,) * count)
        found = figures(Run(quiet=[quiet]))
        assert found["false_alarms_per_10000_evaluations"] == count
        assert is_right(found) is right
        assert sum(line.startswith("false alarm") for line in in_words(found)) == count


# --- cases of a re-test -----------------------------------------------------------------------


async def decided(source: str) -> Decided:
    """By a tool that asks only this."""
    asking = tool("n", asks("n", source=source), above("n", source=source))
    world = World(
        sop=one_node(asking, sources=(source,)),
        library=library(asking),
        sources=[memory({"n": value(20.0)}, name=source)],
    )
    return await world.decide()


async def test_a_case_that_did_not_ask_a_source_is_no_case_of_it() -> None:
    """As of a node that asks a source only where the alert does not say enough."""
    at = int(START.timestamp())
    alert = HistoricalAlert(
        alarm="al", site=0, entity="CH-01", at=at, severity="warning", kinds=frozenset()
    )
    cases = Cases()
    for source in ("metrics", "warehouse", "warehouse", "warehouse"):
        cases.see(alert, await decided(source))
    [found] = cases.of(NODE, Change(kind="dead", source="metrics"))
    assert [one.query["source"] for one in found.answers] == ["metrics"]
    assert cases.of(NODE, Change(kind="dead", source="equipment")) == []
    at_site = Change(kind="unit", source="metrics", factors={"elsewhere": 60.0})
    assert cases.of(NODE, at_site) == []
