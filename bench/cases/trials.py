"""What one tool comes to: its cases, edges of them, and its mutants before both."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Any

from bench.annotator.cases import Case
from bench.cases.edges import Edge, EdgeFinder
from bench.cases.more import MoreCases
from bench.cases.mutants import Mutant, mutants_of
from bench.cases.runner import CaseRunner, Outcome
from bench.cases.tool_sources import ToolSource, compiled
from triage.library.catalogue import Library
from triage.model.decision import NodeId
from triage.sop.procedure import Sop


@dataclass(frozen=True, slots=True, kw_only=True)
class Failing:
    """A case that a tool got wrong. `near` is what the case was found by."""

    node: str
    site: str
    t: int
    entity: str
    expected: str
    got: str
    subject_expected: str
    subject_got: str
    split: str
    near: str
    margin: float | None
    clauses: tuple[str, ...]
    detail: str

    def __str__(self) -> str:
        subject = (
            self.subject_got
            if self.subject_got == self.subject_expected
            else f"{self.subject_got} (expected {self.subject_expected})"
        )
        found = (
            f"{self.node} at {self.site}, t={self.t}, entity {self.entity!r} ({self.split},"
            f" {self.near}, margin {self.margin}): expected {self.expected}, got {self.got},"
            f" subject {subject}"
        )
        return "\n    ".join((found, self.detail, *self.clauses))


@dataclass(slots=True)
class NodeFigures:
    """Of one node. `killed` counts mutants that some held-out case told from the tool."""

    node: str
    total: Counter[str] = field(default_factory=Counter)
    passed: Counter[str] = field(default_factory=Counter)
    verdicts: dict[str, Counter[str]] = field(default_factory=dict)
    episodes: dict[str, int] = field(default_factory=dict)
    failing: list[Failing] = field(default_factory=list)
    mutants: int = 0
    killed: int = 0
    killed_by_more: int = 0
    more: int = 0
    more_passed: int = 0
    more_failing: list[Failing] = field(default_factory=list)
    edges: int = 0
    edges_passed: int = 0
    edges_failing: list[Failing] = field(default_factory=list)
    survivors: list[Mutant] = field(default_factory=list)
    left_out: list[tuple[Mutant, str]] = field(default_factory=list)
    cases_to_kill: list[int] = field(default_factory=list)

    def rate(self, split: str) -> float:
        return self.passed[split] / self.total[split] if self.total[split] else 1.0

    def document(self) -> dict[str, Any]:
        return {
            **{
                split: {
                    "cases": self.total[split],
                    "passed": self.passed[split],
                    "verdicts": dict(sorted(self.verdicts.get(split, {}).items())),
                    "episodes": self.episodes.get(split, 0),
                }
                for split in ("train", "heldout")
            },
            "mutants": self.mutants,
            "killed": self.killed,
            "more": self.more,
            "more_passed": self.more_passed,
            "edges": self.edges,
            "edges_passed": self.edges_passed,
        }


async def judge_node(
    runner: CaseRunner, node: str, cases: Sequence[Case], library: Library
) -> NodeFigures:
    """Answers to held-out cases stay remembered, for the mutants."""
    figures = NodeFigures(node)
    for split in ("train", "heldout"):
        own = [case for case in cases if case.split == split]
        figures.verdicts[split] = Counter(case.expected for case in own)
        figures.episodes[split] = len({case.episode for case in own})
        for case in own:
            outcome = await runner.run(case, library, keep=split == "heldout")
            figures.total[split] += 1
            if outcome.right(case):
                figures.passed[split] += 1
            else:
                figures.failing.append(_failing(runner, case, outcome))
    return figures


def _failing(runner: CaseRunner, case: Case, outcome: Outcome) -> Failing:
    return Failing(
        node=case.node,
        site=runner.site(case),
        t=case.t,
        entity=case.entity,
        expected=case.expected,
        got=outcome.value,
        subject_expected=case.subject,
        subject_got=outcome.subject,
        split=case.split,
        near=case.near,
        margin=case.margin,
        clauses=tuple(
            f"{one.name}: {one.observed!r} {one.op} {one.threshold!r} {one.unit} -> {one.holds}"
            for one in outcome.clauses
        ),
        detail=outcome.detail,
    )


# --- mutants ----------------------------------------------------------------------------------


class Trial:
    """One tool's mutants before the held-out cases, and before edges of these.

    Cases that the tool itself gets wrong tell nothing of a mutant.
    """

    def __init__(
        self, runner: CaseRunner, figures: NodeFigures, source: ToolSource, sop: Sop
    ) -> None:
        self._runner = runner
        self._figures = figures
        self._source = source
        self._sop = sop
        self._node = NodeId(figures.node)
        self._library = compiled({self._node: source}, sop)
        self._more: list[Case | Edge] = []

    async def judge_more(self, more: MoreCases, finder: EdgeFinder, cases: Iterable[Case]) -> None:
        """Cases that the annotator's sample lacks, and edges of all."""
        ordered = _in_order(_heldout(cases))
        figures = self._figures
        added = more.of(ordered)
        for case in added:
            outcome = await self._answer(self._library, case, keep=True)
            figures.more += 1
            if outcome.right(case):
                figures.more_passed += 1
                self._more.append(case)
            else:
                figures.more_failing.append(_failing(self._runner, case, outcome))
        looked_at = [case for pair in zip_longest(ordered, added) for case in pair if case]
        for edge in finder.edges(looked_at, self._sop.params, self._converted):
            outcome = await self._answer(self._library, edge, keep=True)
            figures.edges += 1
            if outcome.right(edge.case):
                figures.edges_passed += 1
                self._more.append(edge)
            else:
                failing = _failing(self._runner, edge.case, outcome)
                figures.edges_failing.append(replace(failing, near=f"{failing.near}, {edge}"))

    def _converted(self, case: Case) -> bool:
        return any(unit in self._source.text for unit in self._runner.units(case))

    async def kill(self, cases: Iterable[Case], most: int) -> None:
        """Each mutant is asked until an answer differs, the annotator's cases first."""
        figures = self._figures
        found = mutants_of(self._node, self._source.text, self._sop.params, most=most)
        figures.left_out += found.left_out
        telling: list[Case | Edge] = [
            case
            for case in _in_order(_heldout(cases))
            if (await self._answer(self._library, case, keep=True)).right(case)
        ]
        own = len(telling)
        telling += self._more
        for mutant in found.mutants:
            changed = compiled({self._node: self._source.with_text(mutant.text)}, self._sop)
            figures.mutants += 1
            for tried, one in enumerate(telling, start=1):
                case = one.case if isinstance(one, Edge) else one
                if not (await self._answer(changed, one, keep=False)).right(case):
                    figures.killed += 1
                    figures.killed_by_more += tried > own
                    figures.cases_to_kill.append(tried)
                    break
            else:
                figures.survivors.append(mutant)

    async def _answer(self, library: Library, one: Case | Edge, *, keep: bool) -> Outcome:
        if isinstance(one, Edge):
            return await self._runner.run(
                one.case, library, params={one.param: one.value}, keep=keep
            )
        return await self._runner.run(one, library, keep=keep)


def _heldout(cases: Iterable[Case]) -> list[Case]:
    return [case for case in cases if case.split == "heldout"]


def _in_order(cases: Iterable[Case]) -> list[Case]:
    """The most telling first: turn about of each verdict and site, those closest to a threshold
    before the others. Most mutants fall to one of the first dozen."""
    groups: dict[tuple[str, int], list[Case]] = {}
    for case in sorted(cases, key=lambda one: (one.margin is None, one.margin or 0.0, one.t)):
        groups.setdefault((case.expected, case.site), []).append(case)
    queues = list(groups.values())
    return [
        queue[i]
        for i in range(max(map(len, queues), default=0))
        for queue in queues
        if i < len(queue)
    ]
