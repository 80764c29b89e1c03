"""Cases made of decisions while all was well, and the re-test of their nodes under a change."""

from __future__ import annotations

from time import monotonic

from bench.dock import ANSWER_BYTES, LIBRARY
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

CASES = 2  # a node and site, the newest
LIVE_S = 30.0


class Cases:
    """Collects them while decisions go by."""

    def __init__(self) -> None:
        self._kept: dict[tuple[NodeId, str], list[LabelledCase]] = {}

    def see(self, alert: HistoricalAlert, decided: Decided) -> None:
        for result in decided.decision.nodes:
            if result.verdict is None or result.answered_by is not AnsweredBy.TOOL:
                continue
            kept = self._kept.setdefault((result.node, decided.decision.site), [])
            kept.append(_case(alert, decided, result))
            del kept[:-CASES]

    def of(self, node: NodeId, sites: frozenset[str]) -> list[LabelledCase]:
        """At one of the sites, or at any."""
        return [
            one
            for (its_node, site), kept in self._kept.items()
            if its_node == node and (not sites or site in sites)
            for one in kept
        ]


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
