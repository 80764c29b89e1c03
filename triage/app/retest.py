"""Which tools are re-tested on what, and the re-test of a whole library outside the daemon."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from triage.app.procedure import Loaded
from triage.app.settings import Settings
from triage.app.trial_parts import LIVE_S, most_bytes
from triage.engine.snapshot import Snapshot
from triage.errors import ConfigError, Finding, InvalidFiles
from triage.evaluation.judge import Marker
from triage.library.catalogue import Library
from triage.library.loader import read_source
from triage.library.manifest import read_manifest
from triage.maker.cases_file import cases_path, read_cases
from triage.model.decision import NodeId
from triage.sop.procedure import Sop
from triage.sop.sites import Sites
from triage.trial.in_process import ApprovedTrials
from triage.trial.limits import TrialLimits
from triage.trial.model import Answers, Candidate
from triage.watching.retest import Retested, Seen, retest_case
from triage.watching.retest_schedule import Task


@dataclass(frozen=True, slots=True, kw_only=True)
class Shelf:
    """A library as it is served. `answer_bytes` is the most that a source may answer."""

    root: Path
    sop: Sop
    sites: Sites
    library: Library
    answer_bytes: int = 1 << 20

    @classmethod
    def of(cls, settings: Settings, loaded: Loaded | Snapshot) -> Shelf:
        return cls(
            root=settings.sop.library,
            sop=loaded.sop,
            sites=loaded.sites,
            library=loaded.library,
            answer_bytes=most_bytes(settings.sources),
        )


def task_of(
    shelf: Shelf,
    node: NodeId,
    *,
    monotonic: Callable[[], float],
    marker: Marker | None = None,
    told: Callable[[Finding], None] = lambda _: None,
) -> Task | None:
    """None for a node without an active tool or without cases. `told` hears what is wrong with the
    file of the cases. Raises ConfigError for a tool that is no longer what was loaded. Blocking:
    reads files."""
    tool = shelf.library.tools.get(node)
    if tool is None:
        return None
    read = read_cases(cases_path(shelf.root, node), shelf.sop, shelf.sites)
    for finding in read.errors:
        told(finding)
    if not read.cases:
        return None
    manifest, _ = read_manifest(shelf.root, node)
    version = manifest.version(tool.version)
    if version is None or version.sha256 != tool.sha256:
        raise ConfigError(f"{node}: version {tool.version} is no longer the one that is loaded")
    body = read_source(shelf.root, node, version)
    return Task(
        candidate=Candidate(
            node=node,
            text=body.decode(),
            sources=tuple(shelf.sop.nodes[node].sources),
            dynamic=tool.dynamic,
            reads_parents=tuple(tool.reads_parents),
        ),
        tool_sha256=tool.sha256,
        cases=read.cases,
        profile=shelf.sites.profile,
        trials=ApprovedTrials(
            tool,
            limits=TrialLimits(answer_bytes=shelf.answer_bytes, answers_s=LIVE_S),
            monotonic=monotonic,
            marker=marker,
        ),
    )


class NodeRetest(NamedTuple):
    """`findings` are without what two cases both show."""

    node: NodeId
    version: int
    cases: int
    ended: tuple[Retested, ...]
    findings: tuple[Seen, ...]

    @property
    def document(self) -> dict[str, Any]:
        counts = Counter((one.mode, one.result) for one in self.ended)
        return {
            "node": self.node,
            "version": self.version,
            "cases": self.cases,
            "results": {
                mode: {result: n for (its_mode, result), n in counts.items() if its_mode == mode}
                for mode in sorted({one.mode for one in self.ended})
            },
            "findings": [
                {
                    "kind": found.kind.value,
                    "subject": found.subject,
                    "detail": found.detail,
                    "evidence": dict(found.evidence),
                }
                for found in self.findings
            ],
        }


async def retest_nodes(
    shelf: Shelf,
    nodes: Sequence[NodeId],
    *,
    live: Answers | None,
    monotonic: Callable[[], float],
    told: Callable[[Finding], None],
    progress: Callable[[], None] = lambda: None,
) -> list[NodeRetest]:
    """Every case of every node that has an active tool and cases, one after the other; `progress`
    is told of each node. What keeps one node from being tried is `told` and keeps no other."""
    retests = []
    for node in nodes:
        try:
            task = await asyncio.to_thread(task_of, shelf, node, monotonic=monotonic, told=told)
        except InvalidFiles as error:
            for finding in error.findings:
                told(finding)
            task = None
        except ConfigError as error:
            told(Finding(file=str(shelf.root / node), where=node, problem=str(error)))
            task = None
        if task is not None:
            ended: list[Retested] = []
            for case in task.cases:
                profile = task.profile(case.warehouse)
                ended += await retest_case(task.candidate, case, profile, task.trials, live)
            found = {(seen.kind, seen.subject): seen for one in ended for seen in one.found}
            version = shelf.library.tools[node].version
            retests.append(
                NodeRetest(node, version, len(task.cases), tuple(ended), tuple(found.values()))
            )
        progress()
    return retests


def documents(retests: Sequence[NodeRetest]) -> Mapping[str, Any]:
    """As scripts read it."""
    return {
        "nodes": [one.document for one in retests],
        "findings": sum(len(one.findings) for one in retests),
    }
