"""Nothing that could be told apart passes for the same decision."""

from __future__ import annotations

from math import nan

import pytest

from bench.fallback.comparing import differences
from tests.unit.bench_fallback.decisions import decision, node, trace, verdict
from triage.model.decision import Decision, Failure, Outcome
from triage.model.verdict import Truth, Verdict

CAUSES = [("rc_x", "RC-01")]
ACTIONS = [("stop", "RC-01")]


def right() -> Decision:
    return decision(node("obs_a"), node("rc_x"), causes=CAUSES, actions=ACTIONS)


def test_the_same_answers_are_the_same_whoever_gave_them() -> None:
    by_agent = decision(
        node("obs_a"), node("rc_x", by_agent=trace()), causes=CAUSES, actions=ACTIONS
    )
    assert differences(right(), by_agent) == []


def test_nothing_known_equals_nothing_known() -> None:
    one, other = (decision(node("obs_a", verdict(Truth.NO_DATA, observed=nan * 1))) for _ in "ab")
    assert differences(one, other) == []


@pytest.mark.parametrize(
    ("other", "told"),
    [
        (verdict(Truth.FALSE), "rc_x: true of RC-01"),
        (verdict(subject="RC-02"), "of RC-02"),
        (verdict(observed=7.0000001), "level 7.0000001"),
        (verdict(text="otherwise"), "rc_x"),
        (verdict()._replace(clauses=()), "rc_x"),
    ],
)
def test_each_part_of_a_verdict_counts(other: Verdict, told: str) -> None:
    without = decision(node("obs_a"), node("rc_x", other), causes=CAUSES, actions=ACTIONS)
    found = differences(right(), without)
    assert len(found) == 1
    assert told in found[0]


def test_a_failed_node_says_why() -> None:
    failed = node("rc_x", failure=Failure(reason="fallback_turns", detail="6 turns"))
    (found,) = differences(right(), decision(node("obs_a"), failed, causes=CAUSES, actions=ACTIONS))
    assert found.endswith("failed (fallback_turns: 6 turns) without")


def test_a_node_that_was_not_reached_counts() -> None:
    (found,) = differences(right(), decision(node("obs_a"), causes=CAUSES, actions=ACTIONS))
    assert found.endswith("not reached without")
    (found,) = differences(decision(node("obs_a"), causes=CAUSES, actions=ACTIONS), right())
    assert "rc_x: not reached with its tool" in found


def test_what_follows_from_verdicts_counts() -> None:
    without = decision(
        node("obs_a"),
        node("rc_x"),
        outcome=Outcome.ESCALATE,
        causes=[("rc_x", "RC-02")],
        actions=[],
    )
    found = differences(right(), without)
    assert [one.partition(":")[0] for one in found] == ["outcome", "root causes", "actions"]
