"""A gap as material for a tool, and whether a version answers it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from triage.errors import SourceFailure
from triage.maker.case_source import Windows
from triage.maker.cases_decision import Correction, Refused, case_of_decision
from triage.maker.faced import as_tools_ask
from triage.maker.scoring import Settings
from triage.maker.traces import digests_of, traces_of_decision
from triage.model.case import LabelledCase, cases_said
from triage.model.decision import NodeId
from triage.trial.answers import CaseAnswers, setting_of
from triage.trial.model import Answers, Candidate, Setting, Trials, Tried

if TYPE_CHECKING:
    from triage.adapters.recorded import Lookup
    from triage.fallback.masking import Mask
    from triage.maker.model import CaseTrace
    from triage.sop.procedure import Sop
    from triage.sop.sites import Sites

UNKNOWN = ""
"""What the cases of a gap are expected to say: nobody has labelled them."""
EXAMPLES = 3
NOTE_CHARS = 2_000


class GapMaterial(NamedTuple):
    """What is known of a gap. `cases` are those of its cases whose decisions are still stored, as
    the failing tool was asked, with what was answered then, also to the fallback in its place;
    `expected` is UNKNOWN in them. `traces` are the fallback's work on them. `total` is how many
    cases there ever were. `remarks` say what could not be had, one line each."""

    gap_id: str
    node: NodeId
    reason: str
    tool_version: int
    tool_sha256: str
    is_open: bool
    total: int
    cases: tuple[LabelledCase, ...]
    traces: tuple[CaseTrace, ...]
    remarks: tuple[str, ...] = ()


async def gap_material(
    group: Mapping[str, Any],
    decisions: Mapping[str, Mapping[str, Any]],
    evidence: Lookup,
    *,
    labels: Mapping[str, Mapping[str, str]],
    sop: Sop,
    sites: Sites,
    mask: Mask,
    own: Collection[str] = (),
) -> GapMaterial:
    """`group` is a gap with its `cases`, as `app.gaps.group_document` makes it; `decisions` are the
    documents of their alerts by id, as far as there are any, `labels` those alerts' labels.
    `evidence` finds a stored answer by its SHA-256. `own` are sources that are MCP servers
    themselves. Raises what `evidence` raises, and ValueError for documents of another form."""
    try:
        node = NodeId(group["node"])
        alerts = [str(case["alert_id"]) for case in group["cases"]]
        cases: list[LabelledCase] = []
        traces: list[CaseTrace] = []
        remarks: list[str] = []
        if node not in sop.nodes:
            remarks.append(f"the SOP has no node {node!r} any more")
            alerts = []
        for alert_id in dict.fromkeys(alerts):
            document = decisions.get(alert_id)
            if document is None:
                remarks.append(f"decision {alert_id} is no longer stored")
                continue
            made = await case_of_decision(
                document,
                Correction(node, UNKNOWN),
                labels=labels.get(alert_id),
                evidence=evidence,
                sop=sop,
                sites=sites,
            )
            if isinstance(made, Refused):
                remarks.append(f"decision {alert_id} {made.why}")
                continue
            case = made.case
            cases.append(case._replace(answers=_as_tools_ask(case, own)))
            remarks += [f"decision {alert_id}: {remark}" for remark in made.remarks]
            traces += await _traces(document, node, evidence, sites, mask, own)
        return GapMaterial(
            gap_id=str(group["gap_id"]),
            node=node,
            reason=str(group["reason"]),
            tool_version=int(group["tool_version"]),
            tool_sha256=str(group["tool_sha256"]),
            is_open=group["closed_at"] is None,
            total=int(group["count"]),
            cases=tuple(cases),
            traces=tuple(traces),
            remarks=tuple(remarks),
        )
    except KeyError as error:
        raise ValueError(f"it is no gap of this version: it has no {error.args[0]!r}") from None


def case_settings(sites: Sites, beyond: Answers | None = None) -> Settings:
    """As a case was: what was recorded, what lies within it, and for the rest `beyond`, which are
    live sources or none."""

    def settings(case: LabelledCase) -> tuple[Setting, Answers]:
        answers = CaseAnswers(case, Windows(case.answers, beyond))
        return setting_of(case, sites.profile(case.warehouse)), answers

    return settings


class Answered(NamedTuple):
    """Whether a version answers a gap's evidence, and what was found, in one line. `unrecorded`
    when it does not only for want of recorded answers: with live sources it may."""

    ok: bool
    detail: str
    unrecorded: bool = False


async def answers_evidence(
    candidate: Candidate, material: GapMaterial, trials: Trials, settings: Settings
) -> Answered:
    """It does when it comes to a verdict in every case that is left of the gap, on the answers that
    were recorded. `settings` says what it may ask beyond them (`case_settings`). What the verdict
    is does not matter here: cases with labels are what tells that. Raises SandboxFailed, and may be
    cancelled."""
    if candidate.node != material.node:
        return Answered(
            ok=False, detail=f"the gap is one of {material.node}, and the tool of {candidate.node}"
        )
    if not material.cases:
        return Answered(
            ok=False,
            detail=f"nothing is left of the gap's {cases_said(material.total)} to run it on: the"
            " decisions are purged",
        )
    tries = await trials.run(candidate, [settings(case) for case in material.cases])
    failed = [
        (case, tried) for case, tried in zip(material.cases, tries, strict=True) if not tried.ok
    ]
    if failed:
        unrecorded = all(tried.failure == SourceFailure.UNRECORDED for _, tried in failed)
        return Answered(ok=False, detail=_failures(failed, len(tries)), unrecorded=unrecorded)
    words = Counter(tried.value for tried in tries)
    said = ", ".join(f"{word} {count}" for word, count in sorted(words.items()))
    return Answered(ok=True, detail=f"a verdict in all of {cases_said(len(tries))}: {said}")


async def close_answered_gap(
    material: GapMaterial,
    candidate: Candidate,
    *,
    version: int,
    sha256: str,
    trials: Trials,
    settings: Settings,
    close: Callable[[str], Awaitable[None]],
) -> Answered:
    """For a version that was promoted: closes its gap when it answers it. `close` is given the
    note, which names version and hash, and raises what closing raises. `ok` is whether it was
    closed; else `detail` says why not, and what to do."""
    if not material.is_open:
        return Answered(ok=False, detail=f"gap {material.gap_id} is closed already")
    if sha256 == material.tool_sha256:
        return Answered(
            ok=False,
            detail=f"gap {material.gap_id} stays open: version {version} is the very source that"
            " left it",
        )
    found = await answers_evidence(candidate, material, trials, settings)
    if not found.ok:
        return found._replace(
            detail=f"gap {material.gap_id} stays open: {found.detail} — look at it with `triage"
            f" gaps show {material.gap_id}`, and close it by hand when it is dealt with"
        )
    note = f"answered by {material.node} version {version}, sha256 {sha256}: {found.detail}"
    await close(note[:NOTE_CHARS])
    return Answered(ok=True, detail=f"gap {material.gap_id} is closed: {found.detail}")


def _as_tools_ask(case: LabelledCase, own: Collection[str]) -> tuple[Any, ...]:
    theirs = tuple(one for one in case.answers if one.query.get("source") in own)
    others = tuple(one for one in case.answers if one.query.get("source") not in own)
    return (*as_tools_ask(others), *theirs)


async def _traces(
    document: Mapping[str, Any],
    node: NodeId,
    evidence: Lookup,
    sites: Sites,
    mask: Mask,
    own: Collection[str],
) -> list[CaseTrace]:
    mine = {**document, "nodes": [one for one in document["nodes"] if one["node"] == node]}
    bodies = {
        digest: body for digest in digests_of(mine) if (body := await evidence(digest)) is not None
    }
    units = sites.profile(str(document["site"])).site.units
    return traces_of_decision(mine, bodies, mask=mask, units=units, own=own)


def _failures(failed: list[tuple[LabelledCase, Tried]], total: int) -> str:
    if all(tried.failure == SourceFailure.UNRECORDED for _, tried in failed):
        return (
            f"in {len(failed)} of {cases_said(total)} it asks what was not recorded, and no source"
            " was asked"
        )
    shown = [f"{case.origin}: {tried.failure}: {tried.detail}" for case, tried in failed[:EXAMPLES]]
    more = f"; and {len(failed) - EXAMPLES} more" if len(failed) > EXAMPLES else ""
    return f"it fails in {len(failed)} of {cases_said(total)}: {'; '.join(shown)}{more}"
