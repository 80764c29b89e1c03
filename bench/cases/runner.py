"""One node's tool, asked for one case, by the code that asks it for an alert."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from time import monotonic
from typing import NamedTuple

from bench.annotator.cases import Case
from bench.dock import ANSWER_BYTES, DockFiles, metrics_source
from bench.world.equipment_answers import ServedEquipment
from bench.world.equipment_facts import read_equipment
from bench.world.equipment_source import WorldEquipment
from triage.adapters.sql import SqlSource
from triage.evaluation.answers import AnswerBook
from triage.evaluation.guard import Answered, GuardedSource, Reply, SourceLimits
from triage.evaluation.judge import NoMark
from triage.evaluation.layer import Attempt
from triage.library.catalogue import Library
from triage.model.alert import Alert, AlertId, Severity
from triage.model.decision import NodeId
from triage.model.query import Query
from triage.model.site import ParamValue
from triage.model.verdict import Clause
from triage.ports import Source
from triage.sop.procedure import SiteProfile, Sop
from triage.sop.sites import Sites
from triage.telemetry.metrics import Metrics

PATIENCE_S = 60.0
"""For one case. Cases are about what tools answer, not how fast: a busy machine fails none."""

FAILED = "failed"


class Outcome(NamedTuple):
    """What a tool said. `value` is a verdict's word or FAILED; then `detail` says why, else it is
    the tool's own explanation."""

    value: str
    subject: str
    clauses: tuple[Clause, ...] = ()
    detail: str = ""

    def right(self, case: Case) -> bool:
        return self.value == case.expected and self.subject == case.subject


@asynccontextmanager
async def sources_in_process(files: DockFiles) -> AsyncIterator[dict[str, Source]]:
    """As `dock.embedded_sources`, but for the equipment, which needs no server here: its answers
    are the same, and a few thousand calls are made in the time of one start."""
    sources: dict[str, Source] = {
        "metrics": metrics_source(files),
        "warehouse": SqlSource(
            "warehouse",
            f"sqlite:///{files.warehouse}",
            max_rows=100_000,
            max_bytes=ANSWER_BYTES,
            pool_size=2,
        ),
        "equipment": WorldEquipment(ServedEquipment(read_equipment(files.equipment))),
    }
    async with AsyncExitStack() as stack:
        for source in sources.values():
            await source.open()
            stack.push_async_callback(source.close)
        yield sources


class _Remembering:
    """A Fetcher that asks its source for each query once, while `keep` is on."""

    def __init__(self, source: GuardedSource) -> None:
        self._source = source
        self.replies: dict[Query, Reply] = {}
        self.keep = True

    async def fetch(self, query: Query, deadline: float) -> Reply:
        reply = self.replies.get(query)
        if reply is None:
            reply = await self._source.fetch(query, deadline)
            if self.keep and isinstance(reply, Answered):
                self.replies[query] = reply
        return reply


class _NoLane:
    async def enter_slow(self) -> bool:
        return False


class CaseRunner:
    """Runs cases against the sources of one world, one at a time. Sources are open.

    Answers are remembered until `forget`, except those first asked for by `run` with `keep`
    off: a mutant's own queries are not asked twice, and would fill the memory.
    """

    def __init__(
        self, sop: Sop, sites: Sites, names: tuple[str, ...], sources: Mapping[str, Source]
    ) -> None:
        """`names` are of the world's sites, in its order."""
        self._sop = sop
        self._sites = sites
        self._names = names
        metrics = Metrics.register(version="cases", monotonic=monotonic)
        metrics.nodes.for_nodes(sop.nodes)
        self._metrics = metrics.nodes
        limits = SourceLimits(timeout_s=PATIENCE_S, max_answer_bytes=ANSWER_BYTES)
        self._fetchers = {
            name: _Remembering(GuardedSource(source, limits, metrics.sources.cell(name), monotonic))
            for name, source in sources.items()
        }

    async def run(
        self,
        case: Case,
        library: Library,
        *,
        params: Mapping[str, ParamValue] | None = None,
        keep: bool = True,
    ) -> Outcome:
        """`params` are in the place of the site's own."""
        node = NodeId(case.node)
        for fetcher in self._fetchers.values():
            fetcher.keep = keep
        book = AnswerBook(self._fetchers, deadline=monotonic() + PATIENCE_S, left_s=PATIENCE_S)
        try:
            attempt = Attempt(
                alert=self._alert(case),
                sop=self._sop,
                library=library,
                profile=self._profile(case, params),
                book=book,
                monotonic=monotonic,
                marker=NoMark(),
                metrics=self._metrics,
                lane=_NoLane(),
            )
            result = (await attempt.evaluate((node,), 0))[node]
        finally:
            await book.close()
        if result.verdict is None:
            assert result.failure is not None
            return Outcome(FAILED, "", (), f"{result.failure.reason}: {result.failure.detail}")
        verdict = result.verdict
        return Outcome(
            verdict.value.word,
            verdict.subject or case.entity,
            verdict.clauses,
            verdict.explanation,
        )

    def forget(self) -> None:
        for fetcher in self._fetchers.values():
            fetcher.replies.clear()

    def site(self, case: Case) -> str:
        return self._names[case.site]

    def units(self, case: Case) -> Mapping[str, str]:
        """What the case's site reports in other units, and in which."""
        return self._sites.profile(self.site(case)).site.units

    def _profile(self, case: Case, params: Mapping[str, ParamValue] | None) -> SiteProfile:
        profile = self._sites.profile(self.site(case))
        return replace(profile, params={**profile.params, **params}) if params else profile

    def _alert(self, case: Case) -> Alert:
        at = datetime.fromtimestamp(case.t, UTC)
        return Alert(
            alert_id=AlertId(f"{case.node}-{case.site}-{case.t}"),
            integration="cases",
            tenant="",
            fingerprint="",
            alarm="",
            site=self.site(case),
            entity=case.entity,
            severity=Severity.WARNING,
            fired_at=at,
            accepted_at=at,
            labels={},
            annotations={},
        )
