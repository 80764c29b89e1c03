"""Cases made of decisions while all was well, and the re-test of their nodes under a change."""

from __future__ import annotations

from time import monotonic
from typing import NamedTuple

from bench.dock import ANSWER_BYTES, LIBRARY
from bench.drift.changed import Change, target_of
from bench.drift.floor import Floor
from bench.replay.alerts import HistoricalAlert
from triage.engine.engine import Decided
from triage.library.manifest import source_path
from triage.model.case import LabelledCase, recorded
from triage.model.decision import AnsweredBy, NodeId, NodeResult
from triage.trial.answers import LiveAnswers
from triage.trial.in_process import ApprovedTrials
from triage.trial.limits import TrialLimits
from triage.trial.model import Candidate
from triage.watching.retest import Seen, retest_case

CASES = 2  # of what a node asked at a site, the newest
LIVE_S = 30.0


class _Place(NamedTuple):
    """A node does not ask the same at every alert: what it may ask has cases of its own."""

    node: NodeId
    site: str
    source: str
    target: str


class Cases:
    """Collects them while decisions go by."""

    def __init__(self) -> None:
        self._kept: dict[_Place, list[LabelledCase]] = {}

    def see(self, alert: HistoricalAlert, decided: Decided) -> None:
        site = decided.decision.site
        for result in decided.decision.nodes:
            if result.verdict is None or result.answered_by is not AnsweredBy.TOOL:
                continue
            case = _case(alert, decided, result)
            for source, target in {
                (one.query.source, target_of(one.query)) for one in result.asked
            }:
                kept = self._kept.setdefault(_Place(result.node, site, source, target), [])
                kept.append(case)
                del kept[:-CASES]

    def of(self, node: NodeId, change: Change) -> list[LabelledCase]:
        """Those in which the node asked what is changed, where it is."""
        found = {
            one.case_id: one
            for place, kept in self._kept.items()
            if place.node == node
            and place.source == change.source
            and change.target in ("", place.target)
            and (not change.factors or place.site in change.factors)
            for one in kept
        }
        return list(found.values())


def _case(alert: HistoricalAlert, decided: Decided, result: NodeResult) -> LabelledCase:
    arrival, verdict = alert.arrival, result.verdict
    assert verdict is not None
    return LabelledCase(
        case_id=f"{decided.decision.alert_id[:8]}-{result.node}",
        node=result.node,
        warehouse=decided.decision.site,
        timestamp=decided.decision.fired_at,
        expected=verdict.value.word,
        entity=arrival.entity,
        labels=arrival.labels,
        parents={
            before.node: before.verdict
            for before in decided.decision.nodes
            if before.verdict is not None and before.layer < result.layer
        },
        answers=tuple(
            recorded(asked.query, decided.evidence[asked.answer_sha256])
            for asked in result.asked
            if asked.answer_sha256 in decided.evidence
        ),
    )


async def retest(on: Floor, node: NodeId, cases: list[LabelledCase]) -> list[Seen]:
    """What a re-test of the node's tool on the cases finds, with the sources as they are now."""
    tool = on.snapshot.library.tools[node]
    candidate = Candidate(
        node=node,
        text=source_path(LIBRARY, node, tool.version).read_text("utf-8"),
        sources=tuple(on.snapshot.sop.nodes[node].sources),
        dynamic=tool.dynamic,
        reads_parents=tuple(tool.reads_parents),
    )
    limits = TrialLimits(answer_bytes=ANSWER_BYTES, answers_s=LIVE_S)
    trials = ApprovedTrials(tool, limits=limits, monotonic=monotonic)
    live = LiveAnswers(on.snapshot.sources, monotonic=monotonic, timeout_s=LIVE_S)
    found: list[Seen] = []
    for case in cases:
        profile = on.snapshot.sites.profile(case.warehouse)
        for one in await retest_case(candidate, case, profile, trials, live):
            found += one.found
    return found
