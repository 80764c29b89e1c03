"""Two runs that differ are said to, and where."""

from __future__ import annotations

from datetime import UTC, datetime
from math import nan

from bench.real_servers.agreement import agreement
from bench.replay.alerts import HistoricalAlert
from bench.replay.deciding import Decided
from bench.world.layout import EPOCH
from triage.model.decision import (
    Asked,
    Decision,
    NodeId,
    NodeKind,
    NodeResult,
    Outcome,
    Pinned,
    decision_sha256,
)
from triage.tool_api import Verdict, compare, conclude, samples

AT = datetime.fromtimestamp(EPOCH, UTC)
QUERY = samples("metrics", "dock_recirc_pct", AT, 900)
PINNED = Pinned(sop="dock", sop_version=1, sop_sha256="", sites_sha256="", library_sha256="")
ALERT = HistoricalAlert(
    alarm="al_recirc_high", site=0, entity="LS-1", at=EPOCH, severity="warning", kinds=frozenset()
)


def decided(verdict: Verdict, *, answer: str = "aa", latency_s: float = 0.1) -> Decided:
    nodes = (
        NodeResult(
            node=NodeId("obs_recirc_elevated"),
            kind=NodeKind.OBSERVATION,
            layer=0,
            verdict=verdict,
            asked=(Asked(query=QUERY, answer_sha256=answer),),
        ),
    )
    digest = decision_sha256(
        alert_id=ALERT.alert_id,
        outcome=Outcome.NO_FAULT,
        degraded=False,
        nodes=nodes,
        edges=(),
        actions=(),
        dropped=(),
    )
    decision = Decision(
        alert_id=ALERT.alert_id,
        alarm=ALERT.alarm,
        site="FC1",
        entity=ALERT.entity,
        outcome=Outcome.NO_FAULT,
        nodes=nodes,
        pinned=PINNED,
        fired_at=AT,
        accepted_at=AT,
        evaluated_at=AT,
        round_trips=1,
        decision_sha256=digest,
    )
    return Decided(alert=ALERT, decision=decision, latency_s=latency_s)


def said(observed: float) -> Verdict:
    return conclude([compare("laps", observed, ">=", 6)], f"{observed:.1f} % go round again")


def test_the_same_is_the_same() -> None:
    run = [decided(said(7))]
    figures = agreement(run, [decided(said(7), latency_s=0.3)])
    assert figures["differences"] == []
    assert figures["real_identical"] == figures["real_alerts"] == 1
    assert figures["real_decisions_sha256"] == figures["embedded_decisions_sha256"]
    assert figures["answers_identical"] == figures["answers_compared"] == 1
    assert (figures["embedded_p50_ms"], figures["real_p50_ms"]) == (100, 300)
    assert figures["queries"] == {"metrics": 1}


def test_a_figure_that_is_not_known_is_itself() -> None:
    assert agreement([decided(said(nan))], [decided(said(nan))])["differences"] == []


def test_another_verdict_is_another_decision() -> None:
    figures = agreement([decided(said(7))], [decided(said(5), answer="bb")])
    assert figures["real_identical"] == 0
    assert figures["real_decisions_sha256"] != figures["embedded_decisions_sha256"]
    assert figures["differences"] == [
        {
            "alert": "al_recirc_high LS-1 2026-09-01T00:00:00+00:00",
            "obs_recirc_elevated": {
                "embedded": "true: 7.0 % go round again [] (laps 7 >= 6)",
                "real": "false: 5.0 % go round again [] (laps 5 >= 6)",
            },
        }
    ]
    assert figures["answers_identical"] == 0
    assert figures["unlike_answers"] == {"obs_recirc_elevated": 1}


def test_another_figure_is_told_though_the_decision_is_the_same() -> None:
    figures = agreement([decided(said(7))], [decided(said(8))])
    assert figures["real_identical"] == 1
    assert len(figures["differences"]) == 1
