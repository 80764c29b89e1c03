"""Everything that is wrong with the tools, in one list: from the files, and from the record."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from triage.app.findings import next_step
from triage.errors import Finding
from triage.library.overview import STALE_TEXT, ToolRow, verify
from triage.maker.cases_file import cases_path
from triage.maker.register import read_ambiguities
from triage.ports import WatchKind
from triage.sop.procedure import Sop

ENOUGH = 0.99
"""The lower end of a shadow's agreement from which on a person is asked to look at it."""

Document = Mapping[str, Any]


class Complaint(NamedTuple):
    """`kind` is a WatchKind or one of the words below; `since` is ISO 8601, empty where nobody
    knows. `what` is one line, `next` what to do. `about` is what of the node, empty for all."""

    node: str
    kind: str
    what: str
    next: str
    since: str = ""
    about: str = ""

    @property
    def document(self) -> dict[str, Any]:
        return {**self._asdict(), "since": self.since or None}


TOOL_MISSING = "tool_missing"
TOOL_UNUSABLE = "tool_unusable"
TOOL_QUARANTINED = "tool_quarantined"
NO_CASES = "no_cases"
GAP_OPEN = "gap_open"
SHADOW_READY = "shadow_ready"
AMBIGUOUS = WatchKind.AMBIGUOUS_TEXT.value


def file_complaints(root: Path, sop: Sop, rows: Sequence[ToolRow]) -> list[Complaint]:
    """What the files show; `rows` are as `describe` gives them. Blocking: every version is read and
    verified."""
    found: list[Complaint] = []
    for row in rows:
        found += _row_complaints(root, row)
    by_node: dict[str, ToolRow] = {row.node: row for row in rows}
    for finding in verify(root, sop):
        complaint = _verified(finding, by_node.get(finding.where))
        if complaint is not None:
            found.append(complaint)
    for one in read_ambiguities(root):
        found.append(
            Complaint(
                node=one.node,
                kind=AMBIGUOUS,
                what=f"“{one.subject}”: {one.detail}",
                next=next_step(one.kind, one.node),
                since=one.first_at.isoformat(),
                about=one.subject,
            )
        )
    return found


def _row_complaints(root: Path, row: ToolRow) -> Iterator[Complaint]:
    node = row.node
    if row.status in ("missing", "retired"):
        yield Complaint(
            node,
            TOOL_MISSING,
            "it has no active tool",
            f"`triage make {node}`, or `triage tools promote {node}` where there is a candidate",
        )
    elif row.status == "quarantined":
        yield Complaint(
            node,
            TOOL_QUARANTINED,
            f"version {row.active} is quarantined: {row.quarantined}",
            f"mend it as a new version; `triage tools quarantine release {row.sha256[:12]}` lets it"
            " run again",
        )
    if row.stale:
        yield Complaint(
            node,
            STALE_TEXT,
            f"version {row.active} was made from another text than the SOP has now",
            f"`triage make {node}`; if the text says the same in other words, promote a version"
            " made from it",
        )
    if row.active is not None and not _has_cases(root, node):
        yield Complaint(
            node,
            NO_CASES,
            "it has no labelled cases: nothing re-tests its tool",
            "`triage cases add --from-decision ALERT_ID --node NODE`".replace("NODE", node),
        )


def _has_cases(root: Path, node: str) -> bool:
    try:
        return cases_path(root, node).stat().st_size > 0
    except OSError:
        return False


def _verified(finding: Finding, row: ToolRow | None) -> Complaint | None:
    """None for what the row has told already."""
    told = row is not None and (row.stale or row.status in ("missing", "retired"))
    if told and ("no version is active" in finding.problem or finding.warning):
        return None
    where = f"{Path(finding.file).name}:{finding.line}" if finding.line else ""
    return Complaint(
        node=finding.where,
        kind=TOOL_UNUSABLE,
        what=" ".join(f"{finding.file}: {finding.problem}".split()),
        next=finding.fix or "see `triage tools verify`",
        about=where,
    )


# --- from the record --------------------------------------------------------------------------


def record_complaints(
    findings: Sequence[Document],
    gaps: Sequence[Document],
    shadows: Sequence[Document],
    rows: Sequence[ToolRow],
) -> list[Complaint]:
    """Documents as `finding_document`, `group_document` and `tally_document` make them."""
    found = [
        Complaint(
            node=str(one["node"]),
            kind=str(one["kind"]),
            what=str(one["detail"]),
            next=str(one["next"]),
            since=str(one["first_at"]),
            about=str(one["subject"]),
        )
        for one in findings
    ]
    found += _gap_complaints(gaps)
    found += _shadow_complaints(shadows, rows)
    return found


def _gap_complaints(gaps: Sequence[Document]) -> Iterator[Complaint]:
    by_node: dict[str, list[Document]] = {}
    for gap in gaps:
        by_node.setdefault(str(gap["node"]), []).append(gap)
    for node, groups in by_node.items():
        cases = sum(int(gap["count"]) for gap in groups)
        most = max(groups, key=lambda gap: int(gap["count"]))
        yield Complaint(
            node=node,
            kind=GAP_OPEN,
            what=f"{len(groups)} open gap{'s' if len(groups) > 1 else ''} with {cases} cases;"
            f" most often {most['reason']}",
            next=f"`triage make --from-gap {most['gap_id']}`",
            since=min(str(gap["first_at"]) for gap in groups),
        )


def _shadow_complaints(shadows: Sequence[Document], rows: Sequence[ToolRow]) -> Iterator[Complaint]:
    """Of shadows that are there now: a pair that was replaced waits for nothing."""
    now: dict[str, tuple[int | None, int | None]] = {
        row.node: (row.shadow, row.active) for row in rows if row.shadow is not None
    }
    for tally in shadows:
        node, version = str(tally["node"]), tally["shadow_version"]
        if now.get(node) != (version, tally["active_version"]):
            continue
        low, high = tally["interval"]
        if low >= ENOUGH:
            yield Complaint(
                node=node,
                kind=SHADOW_READY,
                what=f"version {version} in shadow agreed in {tally['agree']} of"
                f" {tally['compared']} ({low:.1%} to {high:.1%})",
                next=f"`triage tools shadow {node}`, then `triage tools promote {node} {version}`",
                since=str(tally["first_at"]),
            )


def in_order(complaints: Sequence[Complaint], sop: Sop) -> list[Complaint]:
    """By node as the SOP has them, what no node is named for last."""
    places = {str(node): at for at, node in enumerate(sop.nodes)}
    return sorted(
        complaints, key=lambda one: (places.get(one.node, len(places)), one.kind, one.about)
    )
