"""Findings about tools as people and scripts read them, and what to do about each kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from triage.errors import PayloadError
from triage.ports import WatchFinding, WatchKind

NEXT: Mapping[WatchKind, str] = {
    WatchKind.VALUES_MOVED: "ask whoever runs the source whether a unit or a meaning changed; if it"
    " is to stay, `triage make NODE`",
    WatchKind.NULLS: "look at what fills the field in the source; the tool now judges from less",
    WatchKind.GAPS: "look at what writes to the source: it has less than it had",
    WatchKind.SCHEMA_CHANGED: "have the field back in the source, or `triage make NODE` for its new"
    " shape",
    WatchKind.VERDICTS_MOVED: "compare some of its newest decisions with what was so: `triage"
    " decisions list`",
    WatchKind.FAILURES: "see the reason in `triage gaps list --node NODE`; `triage tools rollback"
    " NODE` if a promotion did it",
    WatchKind.SOURCE_DEAD: "bring the source back: `triage check --connect` asks each of them",
    WatchKind.RETEST_FAILED: "`triage retest NODE` shows it again; correct the case or the tool",
    WatchKind.AMBIGUOUS_TEXT: "say in the SOP which of the two the sentence means, then"
    " `triage make NODE`",
}


def next_step(kind: WatchKind, node: str) -> str:
    return NEXT[kind].replace("NODE", node)


def finding_document(one: WatchFinding) -> dict[str, Any]:
    return {
        "finding_id": one.finding_id,
        "kind": one.kind.value,
        "node": one.node,
        "subject": one.subject,
        "tool_sha256": one.tool_sha256,
        "detail": one.detail,
        "first_at": one.first_at.isoformat(),
        "last_at": one.last_at.isoformat(),
        "count": one.count,
        "evidence": dict(one.evidence),
        "closed_at": one.closed_at.isoformat() if one.closed_at else None,
        "next": next_step(one.kind, one.node),
    }


def finding_page(
    found: Sequence[WatchFinding], *, kind: str, cursor: str, limit: int
) -> tuple[list[WatchFinding], str]:
    """A page of `found`, and the cursor of the next, "" on the last. A cursor is the id of the last
    finding of the page before. Raises PayloadError for one that is not among them, which it may
    also have left meanwhile."""
    wanted = [one for one in found if kind in ("", one.kind.value)]
    begin = 0
    if cursor:
        places = [at for at, one in enumerate(wanted) if one.finding_id == cursor]
        if not places:
            raise PayloadError("cursor", "is not of this list, or no longer: begin without it")
        begin = places[0] + 1
    page = wanted[begin : begin + limit]
    return page, page[-1].finding_id if page and begin + limit < len(wanted) else ""
