"""One node through the maker: with everything, and with parts of it taken away."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.cases.tool_sources import ToolSource
from bench.make.casework import spread
from bench.make.workshop import MASK, CaseSettings, Model, RememberedTrials, Workshop
from triage.maker.gates import ActiveVersion, CandidateGates
from triage.maker.loop import Collector, Gates, Maker, MakeRequest
from triage.maker.model import CaseTrace, Made, Score, SeenAnswer
from triage.maker.scoring import score
from triage.maker.seen import seen
from triage.maker.task import SourceKind, task_of
from triage.model.case import LabelledCase
from triage.model.decision import NodeId
from triage.trial.model import Candidate, Told

FULL, NO_TRACES, NO_REPAIR, SOP_ONLY = "full", "no_traces", "no_repair", "sop_only"
ABLATIONS = (FULL, NO_TRACES, NO_REPAIR, SOP_ONLY)
IGNORING = "ignoring"
"""The full pipeline with an endpoint that mends nothing."""
KINDS = {
    "metrics": SourceKind.SERIES,
    "warehouse": SourceKind.TABLES,
    "equipment": SourceKind.TOOLS,
}
SHOWN = 5  # held-out cases that failed, told of each node


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCases:
    """`train` may be a part of what there is; `heldout` is all of it. `active` is the tool that
    decides now, which a new one must be no worse than; None for a node that has none."""

    node: NodeId
    train: Sequence[LabelledCase]
    heldout: Sequence[LabelledCase]
    active: ToolSource | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MakeOptions:
    """`gate_cases` of each part are put to the gates, all of them for 0. `gates` off leaves them
    out."""

    rounds: int = 3
    gates: bool = True
    gate_cases: int = 24
    budget_ms: float = 250.0


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRun:
    """What came of one node in one ablation. `first` is the first candidate on the held-out cases,
    None when there was none to try. Seconds and tokens are of all that it takes: what an ablation
    shares with the full run (traces, trials of the same code on the same cases) is counted in
    both."""

    made: Made
    first: Score | None
    heldout_cases: int
    train_cases: int
    tokens: int
    seconds: float
    collected: tuple[CaseTrace, ...] = field(default=())

    @property
    def repairs(self) -> int:
        return max(0, len(self.made.rounds) - 1)

    def document(self) -> dict[str, Any]:
        made = self.made
        return {
            "pass_at_1": _rate(self.first),
            "train_pass_rate": _rate(made.train),
            "heldout_pass_rate": _rate(made.heldout),
            "rounds": self.repairs,
            "train": [one.score.passed if one.score else None for one in made.rounds],
            "refused": [one.refused for one in made.rounds if one.refused],
            "traces_right": sum(bool(trace.right) for trace in made.traces),
            "traces": len(made.traces),
            "gates_refused_by": [gate.name for gate in made.gates if not gate.passed],
            "gates": {gate.name: gate.detail for gate in made.gates if not gate.passed},
            "p95_ms": round(made.heldout.p95_ms, 2) if made.heldout else None,
            "problem": made.problem,
            "wrong": _wrong(made.heldout),
            "tokens": self.tokens,
            "seconds": round(self.seconds, 1),
        }


def _rate(found: Score | None) -> float:
    return found.rate if found is not None else 0.0


def _wrong(found: Score | None) -> list[str]:
    if found is None:
        return []
    return [
        f"{one.case.warehouse} {one.case.timestamp.isoformat()} {one.case.entity!r}:"
        f" {one.case.expected} of {one.case.subject}, got {one.tried.value} of"
        f" {one.tried.subject} {one.tried.detail}".strip()
        for one in found.mismatches[:SHOWN]
    ]


class NodeMaker:
    """Makes one node's tool in several ways; they share answers, traces and trials."""

    def __init__(self, shop: Workshop, cases: NodeCases, options: MakeOptions) -> None:
        self._shop = shop
        self._cases = cases
        self._options = options
        self._settings = CaseSettings(shop.sites, shop.live)
        self._trials = RememberedTrials(trials=shop.trials)
        self._task = task_of(
            shop.sop,
            cases.node,
            kinds=KINDS,
            sites=[
                shop.sites.profile(name).site
                for name in dict.fromkeys(case.warehouse for case in cases.train)
            ],
        )

    async def full(self, model: Model, name: str) -> NodeRun:
        """With traces that the model's own agents collect, repairs and gates."""
        gates = self._gates() if self._options.gates else None
        return await self._make(model, name, collector=self._shop.collectors[name], gates=gates)

    async def ablated(
        self,
        model: Model,
        name: str,
        *,
        given: Sequence[CaseTrace] = (),
        traces: bool = True,
        repair: bool = True,
        given_s: float = 0.0,
    ) -> NodeRun:
        """`given` are the traces of the full run, which took `given_s` to collect."""
        run = await self._make(model, name, given=given, traces=traces, repair=repair)
        tokens = run.tokens + sum(trace.tokens for trace in given)
        return NodeRun(
            made=run.made,
            first=run.first,
            heldout_cases=run.heldout_cases,
            train_cases=run.train_cases,
            tokens=tokens,
            seconds=run.seconds + given_s,
        )

    async def _make(
        self,
        model: Model,
        name: str,
        *,
        collector: Collector | None = None,
        gates: Gates | None = None,
        given: Sequence[CaseTrace] = (),
        traces: bool = True,
        repair: bool = True,
    ) -> NodeRun:
        began, saved = time.monotonic(), self._trials.saved_s
        maker = Maker(
            model=self._shop.models[name],
            trials=self._trials,
            settings=self._settings,
            seen=_seen,
            prompts=self._shop.prompts,
            mask=MASK,
            limits=model.limits,
            monotonic=self._shop.monotonic,
            collector=collector,
            gates=gates,
        )
        made = await maker.make(
            MakeRequest(
                task=self._task,
                train=self._cases.train,
                heldout=self._cases.heldout,
                rounds=self._options.rounds,
                given=given,
                traces=traces,
                repair=repair,
            )
        )
        seconds = time.monotonic() - began + self._trials.saved_s - saved
        first = made.rounds[0] if made.rounds else None
        return NodeRun(
            made=made,
            first=await self._first(made, first.candidate)
            if first is not None and first.score is not None
            else None,
            heldout_cases=len(self._cases.heldout),
            train_cases=len(self._cases.train),
            tokens=made.tokens,
            seconds=seconds,
        )

    async def _first(self, made: Made, first: Candidate) -> Score | None:
        if made.best is not None and made.best.candidate.text == first.text:
            return made.heldout
        return await score(first, self._cases.heldout, self._trials, self._settings)

    def _gates(self) -> CandidateGates:
        most = self._options.gate_cases
        tool = self._cases.active
        active = None
        if tool is not None:
            candidate = Candidate(
                node=self._cases.node,
                text=tool.text,
                sources=tuple(self._task.sources),
                dynamic=tool.dynamic,
                reads_parents=tool.reads_parents,
            )
            active = ActiveVersion(1, candidate)
        return CandidateGates(
            active=active,
            cases=spread(self._cases.train, most),
            heldout_cases=spread(self._cases.heldout, most),
            # Gates try the same thing again on purpose.
            trials=self._shop.trials,
            settings=self._settings,
            budget_ms=self._options.budget_ms,
        )


def _seen(told: Told, case: LabelledCase) -> SeenAnswer:
    return seen(told, mask=MASK, timestamp=case.timestamp)
