"""The n-th alert of a busy site, its decision and what that rests on, as a store holds them.

A decision has six nodes that asked one query each, about 7 KB of JSON. Alerts come in storms of
eight from one site: four of the six answers are the site's and shared by the storm, two are the
alert's own. Nothing here is random: `n` and the number of alerts in all say everything. Texts
that differ between specimens have one length, so that their answers and documents have too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property, lru_cache

import orjson

from triage.model.alert import AlertId, Arrival, ArrivalKind, Severity, occurrence_id
from triage.model.canonical import canonical_json, sha256_hex
from triage.model.decision import (
    ActionId,
    Asked,
    Cost,
    Decision,
    DroppedAction,
    DropReason,
    Edge,
    NodeId,
    NodeKind,
    NodeResult,
    Outcome,
    Pinned,
    ReachedAction,
    RootCause,
    decision_document,
    decision_sha256,
)
from triage.model.query import Query, Samples
from triage.model.verdict import Clause, Truth, Verdict
from triage.ports import Message

START = datetime(2026, 1, 1, tzinfo=UTC)
BETWEEN = timedelta(seconds=8)  # a million in 93 days
ACCEPTED_AFTER = timedelta(seconds=2)
DECIDED_AFTER = timedelta(milliseconds=12)
STORM = 8
SITES = 5
ALARMS = 14
ENTITIES = 40  # a site
NODES = 6
OWN = 2  # answers that no other alert of the storm has
SAMPLES = 20  # of a series, one each 15 s

INTEGRATION = "native"
SINK = "decisions"
SOURCE = "metrics"
RARE = 50  # decisions of each rare kind, in a store of any size
RARE_OUTCOME = Outcome.INCONCLUSIVE
RARE_ALARM = "al_ra"
RARE_SITE = "site-r"
COMMON = (Outcome.ACTIONS, Outcome.NO_FAULT, Outcome.ACTIONS, Outcome.ESCALATE)


@dataclass(frozen=True, kw_only=True)
class Identity:
    """What tells one specimen from the others; everything else of it follows."""

    alarm: str
    site: str
    entity: str
    outcome: Outcome
    fired_at: datetime
    storm_at: datetime

    @property
    def fingerprint(self) -> str:
        return f"{self.alarm}/{self.site}/{self.entity}"

    @property
    def starts_at_ns(self) -> int:
        return int(self.fired_at.timestamp()) * 10**9

    @cached_property
    def alert_id(self) -> AlertId:
        return occurrence_id(INTEGRATION, "", self.fingerprint, self.starts_at_ns)

    @property
    def accepted_at(self) -> datetime:
        return self.fired_at + ACCEPTED_AFTER

    @property
    def decided_at(self) -> datetime:
        return self.accepted_at + DECIDED_AFTER


def identity(n: int, of: int) -> Identity:
    """`of` is the size of the store: the rare kinds are spread over it evenly. Past its end there
    are none."""
    storm = n // STORM
    step = max(of // RARE, 2) - 1 | 1  # odd, so that the rare ones come to every site
    position = n % step if n < step * RARE else -1
    site = RARE_SITE if position == 3 else f"site-{storm % SITES}"
    return Identity(
        alarm=RARE_ALARM if position == 2 else f"al_{n % ALARMS:02}",
        site=site,
        entity=f"{site}/unit-{n * 7 % ENTITIES:02}",
        outcome=RARE_OUTCOME if position == 1 else COMMON[n % len(COMMON)],
        fired_at=START + n * BETWEEN,
        storm_at=START + storm * STORM * BETWEEN,
    )


def arrival(one: Identity) -> Arrival:
    labels = {"site": one.site, "unit": one.entity, "job": "conveyor", "team": "outbound"}
    annotations = {"summary": f"{one.alarm} at {one.entity}", "runbook": f"sop/{one.alarm}"}
    raw = orjson.dumps(
        {
            "alarm": one.alarm,
            "fired_at": one.fired_at.isoformat(),
            "site": one.site,
            "entity": one.entity,
            "severity": "warning",
            "id": one.fingerprint,
            "labels": labels,
            "annotations": annotations,
        }
    )
    return Arrival(
        kind=ArrivalKind.FIRING,
        integration=INTEGRATION,
        tenant="",
        fingerprint=one.fingerprint,
        starts_at_ns=one.starts_at_ns,
        alarm=one.alarm,
        site=one.site,
        entity=one.entity,
        severity=Severity.WARNING,
        fired_at=one.fired_at,
        labels=labels,
        annotations=annotations,
        raw=raw,
    )


def window_start(end: datetime) -> datetime:
    return end - timedelta(seconds=300)


def evaluated_at(one: Identity) -> datetime:
    return one.accepted_at + timedelta(milliseconds=2)


def query(one: Identity, node: int) -> Query:
    if node < OWN:
        end, label = one.fired_at, f'unit="{one.entity}"'
    else:
        end, label = one.storm_at, f'site="{one.site}"'
    return Samples(SOURCE, f"queue_depth_{node}{{{label}}}", window_start(end), end)


def answers(one: Identity) -> list[tuple[str, bytes]]:
    """Digest and body, by node."""
    return [
        _answer(node, one.site, one.entity, one.fired_at)
        if node < OWN
        else _shared_answer(node, one.site, one.storm_at)
        for node in range(NODES)
    ]


@lru_cache(NODES * (SITES + 1))
def _shared_answer(node: int, site: str, end: datetime) -> tuple[str, bytes]:
    return _answer(node, site, "", end)


def _answer(node: int, site: str, entity: str, at: datetime) -> tuple[str, bytes]:
    """As a source's answer of one series is encoded. The values look like measurements: digits
    that compress badly."""
    end = at.timestamp()
    seed = int(sha256_hex(f"{node} {site} {entity} {end}".encode())[:12], 16)
    body = canonical_json(
        {
            "series": [
                [
                    {"__name__": f"queue_depth_{node}", "site": site, "job": "conveyor"},
                    [end - 15.0 * back for back in range(SAMPLES - 1, -1, -1)],
                    [(1001 + 10 * ((seed >> shift) % 899)) / 100 for shift in range(SAMPLES)],
                ]
            ]
        }
    )
    return sha256_hex(body), body


def evidence(one: Identity) -> dict[str, bytes]:
    """Digest to body, in the order of the nodes."""
    return dict(answers(one))


def decision(one: Identity, bodies: Mapping[str, bytes]) -> Decision:
    """`bodies` are the specimen's `evidence`."""
    names = [NodeId(f"rc_queue_{node}" if node else "obs_queue") for node in range(NODES)]
    layers = (0, 1, 1, 2, 2, 3)
    nodes = tuple(
        NodeResult(
            node=names[node],
            kind=NodeKind.ROOT_CAUSE if node else NodeKind.OBSERVATION,
            layer=layers[node],
            verdict=Verdict(
                value=Truth.TRUE if node in {0, 1, 3} else Truth.FALSE,
                clauses=(
                    Clause(
                        name="share of the queue in use",
                        observed=83.25 - node,
                        op=">",
                        threshold=80.0,
                        unit="percent",
                        holds=node in {0, 1, 3},
                    ),
                ),
                explanation="the queue was more than four fifths full for most of the window",
                subject=one.entity,
            ),
            tool_version=1 + node,
            tool_sha256=f"{node}" * 64,
            asked=(
                Asked(
                    query=query(one, node),
                    answer_sha256=digest,
                    answer_bytes=len(body),
                    elapsed_ms=1.25 + node,
                ),
            ),
            elapsed_ms=2.5 + node,
            evaluate_ms=0.031,
        )
        for node, (digest, body) in enumerate(bodies.items())
    )
    edges = (
        Edge(origin=one.alarm, on="alarm", target=names[0]),
        *(Edge(names[max(0, node // 2)], "true", names[node]) for node in range(1, NODES)),
        Edge(origin=names[3], on="true", target="clear_jam"),
        Edge(origin=names[5], on="false", target="close_alert"),
    )
    actions = (_action(one, "clear_jam", 3, names[3]),)
    dropped = (
        DroppedAction(
            action=_action(one, "close_alert", 1, names[5]),
            reason=DropReason.YIELDED,
            by="clear_jam",
        ),
    )
    return Decision(
        alert_id=one.alert_id,
        alarm=one.alarm,
        site=one.site,
        entity=one.entity,
        outcome=one.outcome,
        observed=(names[0],),
        root_causes=(RootCause(node=names[3], subject=one.entity),),
        actions=actions,
        dropped=dropped,
        nodes=nodes,
        edges=edges,
        pinned=Pinned(
            sop="outbound",
            sop_version=7,
            sop_sha256="a" * 64,
            sites_sha256="b" * 64,
            library_sha256="c" * 64,
        ),
        fired_at=one.fired_at,
        accepted_at=one.accepted_at,
        evaluated_at=evaluated_at(one),
        round_trips=4,
        stages_ms={"queue_wait": 1.2, "sources": 6.5, "evaluate": 0.4, "decide": 8.1},
        decision_sha256=decision_sha256(
            alert_id=one.alert_id,
            outcome=one.outcome,
            degraded=False,
            nodes=nodes,
            edges=edges,
            actions=actions,
            dropped=dropped,
        ),
    )


def message(one: Identity, made: Decision) -> Message:
    """What the worker leaves for its sink."""
    body = canonical_json(decision_document(made))
    return Message(sink=SINK, key=message_key(one), body=body)


def message_key(one: Identity) -> str:
    return f"{one.alert_id}:decision"


def _action(one: Identity, name: str, rank: int, node: NodeId) -> ReachedAction:
    return ReachedAction(
        action=ActionId(name),
        subject=one.entity,
        rank=rank,
        cost=Cost.LOW,
        text="Clear the jam and restart the section once it has been looked at.",
        nodes=(node,),
    )
