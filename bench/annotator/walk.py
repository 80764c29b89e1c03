"""What an alert comes to when every node answers exactly.

Written from the design, apart from the runtime's own traversal: layer after layer, each node
answered once, at its first arrival.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple

from bench.annotator.judge import Judge
from bench.annotator.judged import Judged
from bench.annotator.settings import Action, Settings

Outcome = Literal["escalate", "actions", "inconclusive", "no_fault"]
Reason = Literal["cancelled", "yielded", "outranked"]

Answer = Callable[[str], Judged]
"""Of a node."""
Within = Callable[[str, str], bool]
"""Whether the first asset is the second or lies in it."""


class Taken(NamedTuple):
    """An action and the asset it is for."""

    action: str
    subject: str


class Dropped(NamedTuple):
    action: str
    subject: str
    reason: Reason


class Annotation(NamedTuple):
    """Everything in order of arrival. An alarm that nobody routed is `escalate`, and empty."""

    outcome: Outcome
    verdicts: dict[str, Judged]
    observed: tuple[str, ...]
    root_causes: tuple[tuple[str, str], ...]
    """Node and subject."""
    actions: tuple[Taken, ...]
    dropped: tuple[Dropped, ...]


UNROUTED = Annotation("escalate", {}, (), (), (), ())


def annotate(judge: Judge, site: int, t: int, alarm: str, entity: str) -> Annotation:
    """The right decision for an alert that fired at `t` at a site of the world."""
    return walk(
        judge.settings,
        alarm,
        answer=lambda node: judge.judge(site, t, entity, node),
        within=lambda asset, container: judge.within(site, asset, container),
    )


def walk(settings: Settings, alarm: str, *, answer: Answer, within: Within) -> Annotation:
    entry = settings.entry(alarm)
    if entry is None:
        return UNROUTED
    verdicts: dict[str, Judged] = {}
    reached: dict[Taken, None] = {}
    layer = list(dict.fromkeys(entry))
    while layer:
        verdicts |= {node: answer(node) for node in layer}
        following: dict[str, None] = {}
        for node in layer:
            verdict = verdicts[node]
            for target in settings.nodes[node].targets[verdict.value]:
                if target in settings.nodes:
                    following[target] = None
                else:
                    reached[Taken(target, verdict.subject)] = None
        layer = [node for node in following if node not in verdicts]
    true = [node for node, verdict in verdicts.items() if verdict.value == "true"]
    actions, dropped = settle(settings.actions, list(reached), within)
    return Annotation(
        outcome=_outcome(actions, verdicts),
        verdicts=verdicts,
        observed=tuple(node for node in true if settings.nodes[node].kind == "observation"),
        root_causes=tuple(
            (node, verdicts[node].subject)
            for node in true
            if settings.nodes[node].kind == "root_cause"
        ),
        actions=actions,
        dropped=dropped,
    )


def _outcome(actions: tuple[Taken, ...], verdicts: Mapping[str, Judged]) -> Outcome:
    if actions:
        return "actions"
    if any(verdict.value == "no_data" for verdict in verdicts.values()):
        return "inconclusive"
    return "no_fault"


def settle(
    actions: Mapping[str, Action], reached: list[Taken], within: Within
) -> tuple[tuple[Taken, ...], tuple[Dropped, ...]]:
    """Which of the actions stand. All that cancel do so at once, cancelled or not."""
    reasons: dict[Taken, Reason] = {
        one: "cancelled"
        for one in reached
        if any(
            one.action in actions[other.action].cancels and within(one.subject, other.subject)
            for other in reached
        )
    }
    standing = [one for one in reached if one not in reasons]
    yielding = [one for one in standing if actions[one.action].yields]
    if len(yielding) < len(standing):
        reasons |= dict.fromkeys(yielding, "yielded")
    elif yielding:
        highest = max(actions[one.action].rank for one in yielding)
        reasons |= {one: "outranked" for one in yielding if actions[one.action].rank < highest}
    return (
        tuple(one for one in reached if one not in reasons),
        tuple(Dropped(*one, reasons[one]) for one in reached if one in reasons),
    )
