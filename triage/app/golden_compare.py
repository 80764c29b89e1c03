"""What was decided, beside what a golden case expects."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from triage.app.golden_file import (
    NOT_REACHED,
    ExpectedAction,
    ExpectedCause,
    ExpectedDropped,
    ExpectedVerdict,
    ExpectEntry,
)
from triage.model.decision import (
    Decision,
    DroppedAction,
    Edge,
    NodeResult,
    Outcome,
    ReachedAction,
    RootCause,
)
from triage.sop.procedure import Sop

NOTHING = "nothing"

WantedT = TypeVar("WantedT", bound=ExpectedAction | ExpectedCause)
FoundT = TypeVar("FoundT", ReachedAction, DroppedAction, RootCause)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One case's decision, as far as cases speak of it. `results` are by node id."""

    outcome: Outcome
    reason: str
    degraded: bool
    results: Mapping[str, NodeResult]
    edges: tuple[Edge, ...]
    root_causes: tuple[RootCause, ...]
    actions: tuple[ReachedAction, ...]
    dropped: tuple[DroppedAction, ...]


def seen_in(decision: Decision) -> Seen:
    return Seen(
        outcome=decision.outcome,
        reason=decision.reason,
        degraded=decision.degraded,
        results={result.node: result for result in decision.nodes},
        edges=decision.edges,
        root_causes=decision.root_causes,
        actions=decision.actions,
        dropped=decision.dropped,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """`part` is a key of `expect`; `node` the node it is about, or the one that led to what was
    not expected, empty where there is none. Both texts are one line."""

    part: str
    expected: str
    got: str
    node: str = ""


def compare(expect: ExpectEntry, seen: Seen, entity: str, sop: Sop) -> list[Difference]:
    """Every part that is not as expected, in the order of the file's format. A name that stands
    without a subject matches whatever subject; `entity` is what an empty subject would mean."""
    found = list(_plain_parts(expect, seen))
    for node, wanted in (expect.verdicts or {}).items():
        if (difference := _verdict(node, wanted, seen.results.get(node), entity, sop)) is not None:
            found.append(difference)
    if expect.root_causes is not None:
        found += _listed("root_causes", expect.root_causes, seen.root_causes, _CAUSES)
    if expect.actions is not None:
        found += _listed("actions", expect.actions, seen.actions, _ACTIONS)
    if expect.dropped_actions is not None:
        found += _listed("dropped_actions", expect.dropped_actions, seen.dropped, _DROPPED)
    return found


def _plain_parts(expect: ExpectEntry, seen: Seen) -> Iterator[Difference]:
    if expect.outcome is not None and expect.outcome != seen.outcome.value:
        yield Difference(part="outcome", expected=expect.outcome, got=seen.outcome.value)
    if expect.reason is not None and expect.reason != seen.reason:
        yield Difference(
            part="reason", expected=expect.reason or NOTHING, got=seen.reason or NOTHING
        )
    if expect.degraded is not None and expect.degraded != seen.degraded:
        yield Difference(
            part="degraded", expected=_truth(expect.degraded), got=_truth(seen.degraded)
        )


def _truth(value: bool) -> str:
    return "true" if value else "false"


def _verdict(
    node: str, wanted: ExpectedVerdict, result: NodeResult | None, entity: str, sop: Sop
) -> Difference | None:
    if result is None:
        if wanted.verdict == NOT_REACHED and node in sop.nodes:
            return None
        got = NOT_REACHED if node in sop.nodes else "the SOP has no such node"
    else:
        subject = (result.verdict.subject if result.verdict else "") or entity
        if result.word == wanted.verdict and wanted.subject in (None, subject):
            return None
        got = _on(result.word, subject if wanted.subject is not None else None)
    return Difference(
        part="verdicts", expected=_on(wanted.verdict, wanted.subject), got=got, node=node
    )


# --- lists ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Kind:
    """How the entries of one list are matched, named, and traced to a node."""

    matches: Callable[..., bool]
    wanted_text: Callable[..., str]
    found_text: Callable[..., str]
    node: Callable[..., str]


def _listed(
    part: str, wanted: Sequence[WantedT], found: Sequence[FoundT], kind: _Kind
) -> Iterator[Difference]:
    told: set[int] = set()
    for one in wanted:
        if any(kind.matches(one, other) for other in found):
            continue
        near = [i for i, other in enumerate(found) if kind.matches(_bare(one), other)]
        told.update(near)
        got = ", ".join(kind.found_text(found[index]) for index in near) or NOTHING
        yield Difference(part=part, expected=kind.wanted_text(one), got=got)
    for index, other in enumerate(found):
        if index not in told and not any(kind.matches(one, other) for one in wanted):
            yield Difference(
                part=part, expected=NOTHING, got=kind.found_text(other), node=kind.node(other)
            )


def _bare(wanted: ExpectedAction | ExpectedCause) -> ExpectedAction | ExpectedCause:
    """Its name alone: what bears it differs in something else, and is worth showing."""
    if isinstance(wanted, ExpectedCause):
        return ExpectedCause(node=wanted.node)
    return type(wanted)(action=wanted.action)


def _matches_action(wanted: ExpectedAction, found: ReachedAction) -> bool:
    return wanted.action == found.action and wanted.subject in (None, found.subject)


def _matches_dropped(wanted: ExpectedDropped, found: DroppedAction) -> bool:
    return (
        _matches_action(wanted, found.action)
        and wanted.reason in (None, found.reason.value)
        and wanted.by in (None, found.by)
    )


def _matches_cause(wanted: ExpectedCause, found: RootCause) -> bool:
    return wanted.node == found.node and wanted.subject in (None, found.subject)


def _on(name: str, subject: str | None) -> str:
    return f"{name} on {subject or 'no asset'}" if subject is not None else name


def _dropped_text(name: str, subject: str | None, reason: str, by: str) -> str:
    return _on(name, subject) + (f": {reason}" if reason else "") + (f" by {by}" if by else "")


_ACTIONS = _Kind(
    _matches_action,
    lambda wanted: _on(wanted.action, wanted.subject),
    lambda found: _on(found.action, found.subject),
    lambda found: found.nodes[-1] if found.nodes else "",
)
_DROPPED = _Kind(
    _matches_dropped,
    lambda wanted: _dropped_text(
        wanted.action, wanted.subject, wanted.reason or "", wanted.by or ""
    ),
    lambda found: _dropped_text(
        found.action.action, found.action.subject, found.reason.value, found.by
    ),
    lambda found: found.action.nodes[-1] if found.action.nodes else "",
)
_CAUSES = _Kind(
    _matches_cause,
    lambda wanted: _on(wanted.node, wanted.subject),
    lambda found: _on(found.node, found.subject),
    lambda found: found.node,
)
