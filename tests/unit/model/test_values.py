"""Verdicts that cannot be mistaken for booleans, ids and hashes that say what they should."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from triage.model.alert import ALERT_ID_LENGTH, AlertId, Severity, episode_id, occurrence_id
from triage.model.canonical import canonical_json
from triage.model.decision import (
    ActionId,
    AnsweredBy,
    Asked,
    Cost,
    Decision,
    DroppedAction,
    DropReason,
    Edge,
    Failure,
    NodeId,
    NodeKind,
    NodeResult,
    Outcome,
    Pinned,
    ReachedAction,
    action_key,
    decision_document,
    decision_sha256,
    run_sha256,
)
from triage.model.query import Samples, query_digest
from triage.model.verdict import Clause, Truth, Verdict

T0 = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=10)


class TestTruth:
    @pytest.mark.parametrize("truth", list(Truth))
    def test_it_is_no_boolean(self, truth: Truth) -> None:
        with pytest.raises(TypeError, match="three values"):
            bool(truth)
        with pytest.raises(TypeError):
            not truth  # noqa: B018 - the operator is what is tested

    def test_values_are_frozen(self) -> None:
        verdict = Verdict(value=Truth.TRUE)
        with pytest.raises(AttributeError):
            setattr(verdict, "subject", "other")  # noqa: B010 - a plain assignment is no valid code


class TestIds:
    @given(st.tuples(texts, texts, texts), st.tuples(texts, texts, texts), st.integers(0, 9))
    def test_no_two_occurrences_share_one(
        self, one: tuple[str, str, str], other: tuple[str, str, str], number: int
    ) -> None:
        assert (occurrence_id(*one, number) == occurrence_id(*other, number)) is (one == other)
        assert occurrence_id(*one, number) != occurrence_id(*one, number + 1)
        assert occurrence_id(*one, number) != episode_id(*one, number)

    def test_parts_do_not_run_together(self) -> None:
        assert occurrence_id("ab", "c", "d", 1) != occurrence_id("a", "bc", "d", 1)

    def test_it_stays_what_it_was(self) -> None:
        """Fixed: changing it makes every alert of a running installation a new one."""
        alert_id = occurrence_id("alertmanager", "", "f00", 1_767_614_400_000_000_000)
        assert alert_id == "565a4ea0a8dddd00cc3d1476898b7a54"
        assert len(alert_id) == ALERT_ID_LENGTH

    def test_an_action_key_names_alert_action_and_subject(self) -> None:
        assert (
            action_key(AlertId("a1"), ActionId("open_ticket"), "dock-3") == "a1:open_ticket:dock-3"
        )


def test_urgency_is_ordered() -> None:
    order = [Severity.CRITICAL, Severity.ERROR, Severity.WARNING, Severity.INFO]
    assert [severity.priority for severity in order] == [0, 1, 2, 3]
    assert Severity.UNKNOWN.priority == Severity.WARNING.priority


@given(st.dictionaries(texts, st.integers(0, 9)))
def test_canonical_json_does_not_depend_on_order(document: dict[str, int]) -> None:
    backwards = dict(reversed(list(document.items())))
    assert canonical_json(document) == canonical_json(backwards)


ACTION = ReachedAction(
    action=ActionId("restart"),
    subject="host-1",
    rank=2,
    cost=Cost.HIGH,
    text="Restart it",
    nodes=(NodeId("cause"),),
)
QUERY = Samples("metrics", "up", T0, T0.replace(minute=1))
NODE = NodeResult(
    node=NodeId("cause"),
    kind=NodeKind.ROOT_CAUSE,
    layer=0,
    verdict=Verdict(
        value=Truth.TRUE,
        clauses=(Clause(name="up", observed=0.0, op="<", threshold=1.0, holds=True),),
        explanation="it is down",
    ),
    asked=(Asked(query=QUERY, answer_sha256="ab"),),
    elapsed_ms=1.0,
)
DECISION = Decision(
    alert_id=AlertId("a1"),
    alarm="HostDown",
    site="s",
    entity="host-1",
    outcome=Outcome.ACTIONS,
    actions=(ACTION, ACTION._replace(subject="host-2")),
    nodes=(NODE, NODE._replace(node=NodeId("other"))),
    edges=(
        Edge(origin="HostDown", on="alarm", target="cause"),
        Edge(origin="cause", on="true", target="restart"),
    ),
    pinned=Pinned(sop="host", sop_version=1, sop_sha256="s", sites_sha256="t", library_sha256="l"),
    fired_at=T0,
    accepted_at=T0,
    evaluated_at=T0,
)
FAILED = NODE._replace(verdict=None, failure=Failure(reason="deadline", detail="late"))
DROPPED = DroppedAction(action=ACTION, reason=DropReason.YIELDED, by="other")

SAYS_THE_SAME: dict[str, dict[str, Any]] = {
    "with nodes in another order": {"nodes": DECISION.nodes[::-1]},
    "with actions in another order": {"actions": DECISION.actions[::-1]},
    "with edges in another order": {"edges": DECISION.edges[::-1]},
    "with another explanation": {
        "nodes": (
            NODE._replace(verdict=Verdict(value=Truth.TRUE, explanation="down it is")),
            DECISION.nodes[1],
        )
    },
    "at another speed": {
        "nodes": (NODE._replace(elapsed_ms=9.0, evaluate_ms=1.0, asked=()), DECISION.nodes[1])
    },
}

SAYS_ANOTHER: dict[str, dict[str, Any]] = {
    "of another alert": {"alert_id": AlertId("a2")},
    "another outcome": {"outcome": Outcome.NO_FAULT},
    "degraded": {"degraded": True},
    "another verdict": {
        "nodes": (NODE._replace(verdict=Verdict(value=Truth.NO_DATA)), DECISION.nodes[1])
    },
    "a failed node": {"nodes": (FAILED, DECISION.nodes[1])},
    "a node less": {"nodes": DECISION.nodes[:1]},
    "an edge less": {"edges": DECISION.edges[:1]},
    "an action less": {"actions": DECISION.actions[:1]},
    "another subject": {"actions": (ACTION, ACTION._replace(subject="host-3"))},
    "a dropped action": {"dropped": (DROPPED,)},
}


def _hashed(**changes: Any) -> str:
    decision = replace(DECISION, **changes)
    return decision_sha256(
        alert_id=decision.alert_id,
        outcome=decision.outcome,
        degraded=decision.degraded,
        nodes=decision.nodes,
        edges=decision.edges,
        actions=decision.actions,
        dropped=decision.dropped,
    )


class TestDecisionHash:
    @pytest.mark.parametrize("about", SAYS_THE_SAME)
    def test_what_says_the_same_has_the_same(self, about: str) -> None:
        assert _hashed(**SAYS_THE_SAME[about]) == _hashed()

    @pytest.mark.parametrize("about", SAYS_ANOTHER)
    def test_what_says_another_thing_has_another(self, about: str) -> None:
        assert _hashed(**SAYS_ANOTHER[about]) != _hashed()

    def test_why_an_action_was_dropped_counts(self) -> None:
        cancelled = DROPPED._replace(reason=DropReason.CANCELLED)
        assert _hashed(dropped=(DROPPED,)) != _hashed(dropped=(cancelled,))

    @given(st.dictionaries(texts.map(AlertId), texts), st.randoms())
    def test_a_run_does_not_depend_on_order(self, run: dict[AlertId, str], random: Any) -> None:
        items = list(run.items())
        random.shuffle(items)
        assert run_sha256(dict(items)) == run_sha256(run)
        if run:
            key = next(iter(run))
            assert run_sha256({**run, key: run[key] + "!"}) != run_sha256(run)


class TestDocument:
    def test_it_is_json_and_whole(self) -> None:
        decision = replace(DECISION, dropped=(DROPPED,), nodes=(NODE, FAILED))
        document = orjson.loads(orjson.dumps(decision_document(decision)))
        first, second = document["nodes"]
        assert first["verdict"] == "true"
        assert first["clauses"][0]["holds"] is True
        assert first["asked"][0]["query"]["selector"] == "up"
        assert first["asked"][0]["query_sha256"] == query_digest(QUERY)
        assert first["answered_by"] == AnsweredBy.TOOL
        assert second["verdict"] == "failed"
        assert second["failure"] == {"reason": "deadline", "detail": "late"}
        assert document["actions"][0]["key"] == "a1:restart:host-1"
        assert document["dropped_actions"][0]["dropped"] == "yielded"
