"""A score that cannot flatter: every kind of difference counts, and every miss has a why."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.annotator.judged import Judged
from bench.annotator.walk import Annotation, Taken
from bench.replay.alerts import HistoricalAlert
from bench.replay.score import AFTERGLOW_S, Rate, difference, latent_score, lineage, related
from bench.world.minutes import Episode
from triage.model.alert import AlertId
from triage.model.decision import (
    ActionId,
    Cost,
    Decision,
    NodeId,
    NodeKind,
    NodeResult,
    Outcome,
    Pinned,
    ReachedAction,
    RootCause,
)
from triage.model.verdict import Truth, Verdict

AT = 1_795_800_000
CUP = "rc_cup_worn"
REACHABLE = {"al_pick_fail_high": frozenset({CUP, "rc_vision_degraded"})}


OBS = "obs_pick_fail_elevated"


def leads_to(node: str, word: str) -> frozenset[str]:
    return frozenset({CUP}) if (node, word) == (OBS, "true") else frozenset()


def alert(entity: str = "RC-02") -> HistoricalAlert:
    return HistoricalAlert(
        alarm="al_pick_fail_high",
        site=0,
        entity=entity,
        at=AT,
        severity="warning",
        kinds=frozenset(),
    )


def decision(
    value: Truth | None = Truth.TRUE, *, cause: str = "RC-02", action: str = "open_ticket"
) -> Decision:
    now = datetime.fromtimestamp(AT, UTC)
    verdict = (
        None if value is None else Verdict(value=value, clauses=(), explanation="-", subject=cause)
    )
    results = [NodeResult(node=NodeId(CUP), kind=NodeKind.ROOT_CAUSE, layer=0, verdict=verdict)]
    holds = value is Truth.TRUE
    return Decision(
        alert_id=AlertId("a"),
        alarm="al_pick_fail_high",
        site="FC1",
        entity="RC-02",
        outcome=Outcome.ACTIONS,
        root_causes=(RootCause(node=NodeId(CUP), subject=cause),) if holds else (),
        actions=(
            ReachedAction(
                action=ActionId(action),
                subject="RC-02",
                rank=1,
                cost=Cost.LOW,
                text="-",
                nodes=(NodeId(CUP),),
            ),
        ),
        nodes=tuple(results),
        pinned=Pinned(sop="s", sop_version=1, sop_sha256="", sites_sha256="", library_sha256=""),
        fired_at=now,
        accepted_at=now,
        evaluated_at=now,
    )


def right(value: str = "true", *, cause: str = "RC-02", action: str = "open_ticket") -> Annotation:
    causes = ((CUP, cause),) if value == "true" else ()
    return Annotation(
        outcome="actions",
        verdicts={CUP: Judged(value, cause, None)},  # type: ignore[arg-type] # one of its three words
        observed=(),
        root_causes=causes,
        actions=(Taken(action, "RC-02"),),
        dropped=(),
    )


def episode(fault: str = "cup_worn", asset: str = "RC-02", *, ended: int = 0) -> Episode:
    return Episode(
        fault=fault,
        site=0,
        asset=asset,
        onset=AT - 9000,
        start=AT - 7200,
        end=AT - ended if ended else AT + 3600,
        severity=1.0,
        episode=1,
    )


def test_nothing_differs_from_itself() -> None:
    assert not difference(alert(), decision(), right())


@pytest.mark.parametrize(
    ("theirs", "part"),
    [
        (right("false"), "root_causes"),
        (right(cause="RC-03"), "root_causes"),
        (right(action="close_alert"), "actions"),
        (right()._replace(outcome="no_fault"), "outcome"),
        (right()._replace(observed=("obs_x",)), "observed"),
        (right("no_data"), "verdicts"),
        (right()._replace(verdicts={}), "verdicts"),
    ],
)
def test_every_part_counts(theirs: Annotation, part: str) -> None:
    found = difference(alert(), decision(), theirs)
    assert found
    assert getattr(found, part)


def test_a_fault_that_was_on_is_named() -> None:
    score = latent_score([(alert(), decision(), right())], [episode()], REACHABLE, leads_to)
    assert (score.precision, score.recall) == (Rate(hits=1, of=1), Rate(hits=1, of=1))
    assert not score.misses
    assert not score.false_alarms


@pytest.mark.parametrize(
    ("ours", "theirs", "why"),
    [
        (decision(Truth.FALSE), right("false"), "rule says no"),
        (decision(Truth.NO_DATA), right("no_data"), "no data"),
        (decision(None), right("false"), "failed"),
        (decision(Truth.FALSE), right("true"), "a fault of ours"),
    ],
)
def test_a_miss_has_a_why(ours: Decision, theirs: Annotation, why: str) -> None:
    score = latent_score([(alert(), ours, theirs)], [episode()], REACHABLE, leads_to)
    assert score.recall == Rate(hits=0, of=1)
    assert dict(score.misses) == {(CUP, why): 1}


@pytest.mark.parametrize(
    ("episodes", "why"),
    [
        ([], "just over"),
        ([episode("vision_degraded")], "another fault"),
        ([episode(asset="RC-03")], "another fault"),
        ([episode(ended=AFTERGLOW_S + 1)], "just over"),
    ],
)
def test_a_cause_that_was_not_there_has_a_why(episodes: list[Episode], why: str) -> None:
    score = latent_score([(alert(), decision(), right())], episodes, REACHABLE, leads_to)
    assert score.precision == Rate(hits=0, of=1)
    assert dict(score.false_alarms) == {(CUP, why): 1}


def test_what_a_window_still_shows_is_no_false_alarm_and_no_miss() -> None:
    score = latent_score(
        [(alert(), decision(), right())], [episode(ended=600)], REACHABLE, leads_to
    )
    assert score.precision == Rate(hits=1, of=1)
    assert score.recall.of == 0


def test_a_fault_that_does_not_raise_the_alarm_is_not_asked_for() -> None:
    elsewhere = [episode("labor_short", "")]
    score = latent_score(
        [(alert(), decision(Truth.FALSE), right("false"))], elsewhere, REACHABLE, leads_to
    )
    assert score.recall.of == 0


@pytest.mark.parametrize(
    ("one", "other", "together"),
    [
        ("CH-007", "CH-007", True),
        ("CH-007", "STG-02", True),
        ("STG-02", "CH-007", True),
        ("CH-007", "ZN-1", True),
        ("CH-007", "CH-008", False),
        ("CH-007", "STG-03", False),
        ("PE-12", "INF-1", True),
        ("PE-12", "DRV-1", False),
        ("DRV-12", "RC-02", True),
        ("DD-05", "STG-03", True),
        ("", "RC-02", True),
        ("LS-1", "CH-007", True),
        ("ST-1", "ST-2", False),
    ],
)
def test_assets_belong_together_along_the_layout(one: str, other: str, together: bool) -> None:
    assert related(one, other) is together
    assert related(other, one) is together


def test_a_lineage_ends_at_the_zone() -> None:
    assert lineage("CH-060") == ("CH-060", "STG-12", "ZN-4")
    assert lineage("LS-1") == ()


@given(st.integers(1, 2000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_an_interval_holds_the_rate_and_stays_a_share(counts: tuple[int, int]) -> None:
    rate = Rate(hits=counts[0], of=counts[1])
    low, high = rate.interval
    assert 0 <= low <= rate.value + 1e-12
    assert rate.value - 1e-12 <= high <= 1


def test_an_interval_as_published() -> None:
    # Brown, Cai and DasGupta (2001): 10 of 20 is 0.299 to 0.701.
    low, high = Rate(hits=10, of=20).interval
    assert (round(low, 3), round(high, 3)) == (0.299, 0.701)


def test_a_miss_says_which_answer_turned_the_walk_away() -> None:
    refused = NodeResult(
        node=NodeId(OBS),
        kind=NodeKind.OBSERVATION,
        layer=0,
        verdict=Verdict(value=Truth.FALSE, clauses=(), explanation="-", subject=""),
    )
    elsewhere = replace(decision(Truth.FALSE), nodes=(refused,))
    unasked = right("false")._replace(verdicts={})
    score = latent_score([(alert(), elsewhere, unasked)], [episode()], REACHABLE, leads_to)
    assert dict(score.misses) == {(CUP, f"not reached: {OBS} false"): 1}
