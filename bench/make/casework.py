"""The dock's labelled cases as the maker takes them, and the mistakes of drafts that they show."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from itertools import zip_longest

from bench.annotator.cases import Case
from bench.cases.mutation import Subject
from bench.cases.runner import CaseRunner, Outcome
from bench.cases.tool_sources import ToolSource, compiled
from bench.make.bugs import Bug, FoundBug, apart, bugs_of, drawn, revealed_by, with_bugs
from bench.make.draft import Known, State
from bench.make.reading import FAILED, SaidClause, Shown
from triage.model.case import LabelledCase, case_id
from triage.model.decision import NodeId
from triage.model.verdict import Clause
from triage.sop.procedure import Param, Sop

ORIGIN = "dock"
LEAST_SHOWN = 4
"""Training cases that must show a bug: eight of all that fail are put before the model."""
LEAST_SHARE = 0.25
"""Of the training cases that a bug fails, so many must show it."""
TRIED = 24
"""Bugs of a tool that are tried before it goes without."""
HOPELESS = 30
"""Cases of which none showed a bug: it is not looked for any longer."""


def labelled(cases: Sequence[Case], sites: Sequence[str], split: str) -> list[LabelledCase]:
    """Of one part, in the order given, without recorded answers. `sites` are the world's names."""
    return [_labelled(case, sites[case.site]) for case in cases if case.split == split]


def _labelled(case: Case, site: str) -> LabelledCase:
    at = datetime.fromtimestamp(case.t, UTC)
    return LabelledCase(
        case_id=case_id(case.node, site, at, case.entity, {}),
        node=NodeId(case.node),
        warehouse=site,
        timestamp=at,
        expected=case.expected,
        entity=case.entity,
        subject=case.subject,
        origin=ORIGIN,
        by="annotator",
        split=case.split,
    )


def spread(cases: Sequence[LabelledCase], most: int) -> list[LabelledCase]:
    """At most `most`, by turns of each verdict and site, drawn by their ids; in order of time.
    All of them for 0."""
    if not most or len(cases) <= most:
        return list(cases)
    queues: dict[tuple[str, str], list[LabelledCase]] = {}
    for case in sorted(cases, key=lambda one: sha256(one.case_id.encode()).digest()):
        queues.setdefault((case.expected, case.warehouse), []).append(case)
    by_turns = [
        case
        for turn in zip_longest(*(queues[key] for key in sorted(queues)))
        for case in turn
        if case is not None
    ]
    return sorted(by_turns[:most], key=lambda one: (one.timestamp, one.case_id))


# --- mistakes of first drafts -------------------------------------------------------------------


async def chosen_bugs(
    runner: CaseRunner,
    node: NodeId,
    source: ToolSource,
    cases: Sequence[Case],
    sop: Sop,
    *,
    seed: int,
) -> list[Bug]:
    """One or two, by node and seed, of those that these training cases show. None where they show
    none. The runner's answers are remembered."""
    subject = Subject(ast.parse(source.text), sop.params)
    wanted = 1 + sha256(f"{seed}/{node}".encode()).digest()[0] % 2
    chosen: list[FoundBug] = []
    for found in _in_turn(drawn(node, seed, list(bugs_of(subject))))[:TRIED]:
        if len(chosen) >= wanted:
            break
        if not all(_go_together(subject, found, other) for other in chosen):
            continue
        if not await _is_shown(runner, node, source, cases, sop, found.bug):
            continue
        if seen_through_quirks(source.text, sop.params, found.bug):
            chosen.append(found)
    return [found.bug for found in chosen]


def _in_turn(found: Sequence[FoundBug]) -> list[FoundBug]:
    """One of each operator, then a second: a tool has many comparisons and few aggregations."""
    seen: dict[str, int] = {}
    turns: list[tuple[int, int]] = []
    for place, one in enumerate(found):
        turns.append((seen.get(one.bug.operator, 0), place))
        seen[one.bug.operator] = turns[-1][0] + 1
    return [found[place] for _, place in sorted(turns)]


def _go_together(subject: Subject, one: FoundBug, other: FoundBug) -> bool:
    return one.bug.operator != other.bug.operator and apart(subject, one.change, other.change)


def seen_through_quirks(source: str, params: Mapping[str, Param], bug: Bug) -> bool:
    """Whether what is missing can be told from the code, whatever else is missing: a bug may take
    out the very line that deals with a quirk."""
    known = Known(source, params, bugs=[bug])
    quirks = frozenset(quirk.name for quirk in known.quirks)
    states = [
        State(quirks=some, bugs=bugs)
        for some in (frozenset[str](), *(frozenset({name}) for name in quirks), quirks)
        for bugs in (frozenset[Bug](), frozenset({bug}))
    ]
    return all(known.state_of(known.text(state)) == state for state in states)


async def _is_shown(
    runner: CaseRunner,
    node: NodeId,
    source: ToolSource,
    cases: Sequence[Case],
    sop: Sop,
    bug: Bug,
) -> bool:
    try:
        text = with_bugs(source.text, [bug], sop.params)
    except SyntaxError:
        return False
    library = compiled({node: source.with_text(text)}, sop)
    shows = revealed_by(bug.operator)
    assert shows is not None
    failing = shown = 0
    # Cases come by time, and what is rare comes in clusters.
    for tried, case in enumerate(sorted(cases, key=_mixed)):
        if tried == HOPELESS and not shown:
            return False
        outcome = await runner.run(case, library)
        if not outcome.right(case):
            failing += 1
            shown += shows(_as_shown(case, outcome))
    return shown >= LEAST_SHOWN and shown >= LEAST_SHARE * failing


def _mixed(case: Case) -> bytes:
    return sha256(f"{case.site}/{case.t}/{case.entity}".encode()).digest()


def _as_shown(case: Case, outcome: Outcome) -> Shown:
    """A failing case as a prompt would tell of it."""
    failed = outcome.value == FAILED
    return Shown(
        text="",
        lines={
            "entity": case.entity,
            "expected": case.expected,
            "expected subject": case.subject or case.entity,
            "predicted": f"{FAILED}: {outcome.detail}" if failed else outcome.value,
            "predicted subject": outcome.subject,
        },
        clauses=tuple(map(_clause, outcome.clauses)),
    )


def _clause(clause: Clause) -> SaidClause:
    return SaidClause(
        name=clause.name,
        observed=_number(clause.observed),
        op=clause.op,
        threshold=_number(clause.threshold),
        unit=clause.unit,
        holds=clause.holds,
    )


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None
