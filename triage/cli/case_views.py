"""Labelled cases as tables, lines and JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from triage.cli.findings import finding_document, findings_document
from triage.cli.output import cell, columns
from triage.errors import Finding
from triage.maker.cases_file import Appended
from triage.maker.cases_reading import CasesRead, label
from triage.maker.cases_split import Split
from triage.maker.coverage import PARTS, Coverage
from triage.model.case import LabelledCase
from triage.model.decision import NodeId

STYLES = {"true": "green", "false": "", "no_data": "yellow"}
NAMED = 5  # nodes without cases that a line names


def cases_table(read: CasesRead, split: Split) -> Table:
    table = columns(
        "case", "line", "timestamp", "site", "entity", "expected", "part", "answers", "by", "origin"
    )
    for part, case in _by_time(split):
        table.add_row(
            cell(case.case_id),
            cell(read.lines[case.case_id]),
            cell(case.timestamp.isoformat()),
            cell(case.warehouse),
            cell(case.entity),
            _expected(case),
            cell(PARTS[part] + (" (marked)" if case.split else "")),
            cell(len(case.answers)),
            cell(case.by),
            cell(case.origin),
        )
    table.columns[0].no_wrap = True
    for index in (1, 7):
        table.columns[index].justify = "right"
    return table


def list_document(node: NodeId, read: CasesRead, split: Split) -> dict[str, Any]:
    """By time. Answers are counted: the file has them."""
    return {
        "node": node,
        "file": read.file,
        "cut": None if split.cut is None else split.cut.isoformat(),
        "errors": len(read.errors),
        "cases": [
            {
                "case": case.case_id,
                "line": read.lines[case.case_id],
                "part": part,
                "marked": bool(case.split),
                "timestamp": case.timestamp.isoformat(),
                "warehouse": case.warehouse,
                "entity": case.entity,
                "params": dict(case.params),
                "expected": case.expected,
                "subject": case.subject,
                "answers": len(case.answers),
                "origin": case.origin,
                "by": case.by,
                "note": case.note,
            }
            for part, case in _by_time(split)
        ],
    }


def added_document(
    node: NodeId,
    file: str,
    added: Appended,
    remarks: Sequence[str],
    findings: Sequence[Finding],
) -> dict[str, Any]:
    return {
        "node": node,
        "file": file,
        "added": list(added.added),
        "already": list(added.already),
        "remarks": list(remarks),
        "findings": [finding_document(finding) for finding in findings],
    }


def check_document(
    findings: Sequence[Finding], covered: Sequence[Coverage], without: Sequence[NodeId]
) -> dict[str, Any]:
    return {
        **findings_document(findings),
        "nodes": [one.document() for one in covered],
        "without": list(without),
    }


def coverage_lines(covered: Sequence[Coverage], without: Sequence[NodeId]) -> Iterator[Text]:
    for one in covered:
        first, *rest = one.lines()
        yield cell(one.node, "bold").append_text(cell(f": {first}"))
        for line in rest:
            yield cell(f"  {line}", "yellow" if line.startswith("not covered") else "")
    if without:
        named = ", ".join(without[:NAMED])
        more = f" and {len(without) - NAMED} more" if len(without) > NAMED else ""
        yield cell(f"no cases: {named}{more}", "dim")


def _by_time(split: Split) -> list[tuple[str, LabelledCase]]:
    parts: Mapping[str, Sequence[LabelledCase]] = {"train": split.train, "heldout": split.heldout}
    both = [(part, case) for part, cases in parts.items() for case in cases]
    return sorted(both, key=lambda one: (one[1].timestamp, one[1].case_id))


def _expected(case: LabelledCase) -> Text:
    return cell(label(case), STYLES[case.expected])
