"""Two runs of the same alerts: whether they say the same, and what they cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from statistics import median
from typing import Any

from bench.ranks import nearest_rank
from bench.replay.deciding import Decided
from triage.model.decision import Asked, Decision, NodeResult, run_sha256
from triage.model.query import query_digest


def agreement(embedded: Sequence[Decided], real: Sequence[Decided]) -> dict[str, Any]:
    """What is the same and what is not, of the same alerts in the same order. Latencies are
    milliseconds to the durable commit, percentiles by nearest rank.

    `answers_compared` are queries that both runs asked for an alert, `answers_identical` those
    answered with the same bytes; `unlike_answers` counts the others by node.
    """
    pairs = list(zip(embedded, real, strict=True))
    told = (difference(*pair) for pair in pairs)
    answers = [compared for pair in pairs for compared in _answers(*pair)]
    digests = [[one.decision.decision_sha256 for one in pair] for pair in pairs]
    return {
        "real_alerts": len(pairs),
        "real_identical": len([True for ours, theirs in digests if ours == theirs]),
        "real_decisions_sha256": _run_sha256(real),
        "embedded_decisions_sha256": _run_sha256(embedded),
        "differences": [one for one in told if one],
        "real_degraded": len([one for one in real if one.decision.degraded]),
        "embedded_degraded": len([one for one in embedded if one.decision.degraded]),
        "nodes_judged": len({node.node for one in real for node in one.decision.nodes}),
        "queries": dict(Counter(one.query.source for run in real for one in asked(run.decision))),
        "answers_compared": len(answers),
        "answers_identical": len([True for _, ours, theirs in answers if ours == theirs]),
        "unlike_answers": dict(Counter(node for node, ours, theirs in answers if ours != theirs)),
        **_latencies("embedded", embedded),
        **_latencies("real", real),
    }


def difference(embedded: Decided, real: Decided) -> dict[str, Any]:
    """What the two say otherwise of one alert, for a person to read; empty when nothing. Figures
    and explanations count as well, not only what a decision's digest is made from."""
    ours, theirs = embedded.decision, real.decision
    unlike: dict[str, Any] = {}
    for what, one, other in (
        ("outcome", ours.outcome.value, theirs.outcome.value),
        ("actions", _actions(ours), _actions(theirs)),
    ):
        if one != other:
            unlike[what] = {"embedded": one, "real": other}
    told = [
        {result.node: _told(result) for result in decision.nodes} for decision in (ours, theirs)
    ]
    for node in sorted(told[0].keys() | told[1].keys()):
        said, other_said = (by_node.get(node, "not reached") for by_node in told)
        if said != other_said:
            unlike[node] = {"embedded": said, "real": other_said}
    if not unlike and ours.decision_sha256 == theirs.decision_sha256:
        return {}
    alert = embedded.alert
    fired_at = alert.arrival.fired_at.isoformat()
    return {"alert": f"{alert.alarm} {alert.arrival.entity} {fired_at}", **unlike}


def _actions(decision: Decision) -> list[str]:
    return sorted(f"{action.action}:{action.subject}" for action in decision.actions)


def _told(result: NodeResult) -> str:
    if result.verdict is None:
        return f"failed: {result.failure.detail if result.failure else ''}"
    verdict = result.verdict
    clauses = "; ".join(f"{c.name} {c.observed!r} {c.op} {c.threshold!r}" for c in verdict.clauses)
    return f"{result.word}: {verdict.explanation} [{verdict.subject}] ({clauses})"


def asked(decision: Decision) -> Iterator[Asked]:
    """Node by node; what several nodes asked comes several times."""
    for result in decision.nodes:
        yield from result.asked


def _answers(embedded: Decided, real: Decided) -> Iterator[tuple[str, str, str]]:
    """Node, and the digests of both answers, of each query that both have asked."""
    theirs = {query_digest(one.query): one.answer_sha256 for one in asked(real.decision)}
    seen: set[str] = set()
    for result in embedded.decision.nodes:
        for one in result.asked:
            digest = query_digest(one.query)
            if digest in theirs and digest not in seen:
                seen.add(digest)
                yield result.node, one.answer_sha256, theirs[digest]


def _run_sha256(run: Sequence[Decided]) -> str:
    return run_sha256({one.decision.alert_id: one.decision.decision_sha256 for one in run})


def _latencies(name: str, run: Sequence[Decided]) -> dict[str, Any]:
    latencies = sorted(1000 * one.latency_s for one in run)
    return {
        f"{name}_p50_ms": round(nearest_rank(latencies, 0.5), 2),
        f"{name}_p99_ms": round(nearest_rank(latencies, 0.99), 2),
        f"{name}_round_trips_p50": median(one.decision.round_trips for one in run),
    }
