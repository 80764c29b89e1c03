"""Results of golden cases and their coverage, as lines and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from rich.console import Console
from rich.text import Text

from triage.app.golden_case import Recorded, Unusable
from triage.app.golden_compare import Difference
from triage.app.golden_coverage import Coverage
from triage.app.golden_run import CaseResult, Status
from triage.cli.findings import finding_document, print_findings, shown_path
from triage.cli.output import cell
from triage.cli.text import printable
from triage.cli.tree import clause_text, query_text
from triage.model.decision import NodeResult
from triage.model.query import query_document

Result = CaseResult | Unusable

_STYLES = MappingProxyType(
    {"passed": "green", "failed": "bold red", "unusable": "bold red", "updated": "yellow"}
)
_WIDTH = max(map(len, _STYLES))
_INDENT = "    "


def state(result: Result, updated: frozenset[str]) -> str:
    """`passed`, `failed`, `updated`, or `unusable` for a file that holds no case."""
    if isinstance(result, Unusable):
        return "unusable"
    return "updated" if result.case.name in updated else result.status.value


def print_result(console: Console, result: Result, updated: frozenset[str]) -> None:
    word = state(result, updated)
    name = result.name if isinstance(result, Unusable) else result.case.name
    line = Text(word.ljust(_WIDTH), style=_STYLES[word]).append(f"  {printable(name)}")
    console.print(line, soft_wrap=True)
    if isinstance(result, Unusable):
        print_findings(console, result.findings)
    elif result.status is Status.FAILED:
        for detail in _details(result):
            console.print(Text(_INDENT).append_text(detail), soft_wrap=True)


def _details(result: CaseResult) -> Iterator[Text]:
    if result.case.about:
        yield cell(result.case.about, "italic")
    for difference in result.differences:
        yield _difference(difference)
        yield from _reasons(result, difference)
    for node in result.without_verdict:
        yield cell(f"{node}: is reached, and the case says nothing of it", "red")
    if result.without_verdict:
        where = shown_path(str(result.case.file))
        yield cell(f"add what it says under `verdicts` in {where}", "dim")
    if result.seen is not None and any(not one.node for one in result.differences):
        walked = ", ".join(f"{node} {one.word}" for node, one in result.seen.results.items())
        yield cell(f"walked: {walked or 'nothing'}", "dim")
    for missing in result.unrecorded:
        asked = query_text(query_document(missing.query))
        yield cell(f"{missing.node}: unrecorded: {asked}", "red")
    if result.unrecorded:
        yield cell(
            "record the case anew: let the daemon decide such an alert, then `triage test add "
            f"ALERT_ID --name {result.case.name} --replace`",
            "dim",
        )


def _difference(difference: Difference) -> Text:
    of_node = difference.part == "verdicts"
    line = cell(difference.node if of_node else difference.part.replace("_", " "), "bold")
    line.append(": expected ").append_text(cell(difference.expected, "green"))
    line.append(", got ").append_text(cell(difference.got, "red"))
    if difference.node and not of_node and difference.node != difference.got.split(" ")[0]:
        line.append_text(cell(f" ← {difference.node}", "dim"))
    return line


def _reasons(result: CaseResult, difference: Difference) -> Iterator[Text]:
    """Why the node says what it says."""
    nodes: Sequence[Mapping[str, Any]] = result.document["nodes"] if result.document else ()
    for node in nodes:
        if node["node"] != difference.node or difference.part != "verdicts":
            continue
        if node["explanation"]:
            yield cell(f"  {node['explanation']}", "italic")
        for clause in node["clauses"]:
            yield Text("  ").append_text(clause_text(clause))
        if node["failure"] is not None:
            yield cell(f"  failed: {node['failure']['reason']}: {node['failure']['detail']}", "red")


def print_coverage(console: Console, found: Coverage, *, listed: bool) -> None:
    nodes, edges = len(found.nodes), len(found.edges)
    console.print(
        Text(
            f"coverage: {found.node_percent:g} % of nodes"
            f" ({nodes} of {nodes + len(found.missed_nodes)}),"
            f" {found.edge_percent:g} % of edges ({edges} of {edges + len(found.missed_edges)})"
        )
    )
    if not listed:
        return
    for node in found.missed_nodes:
        console.print(Text(f"never walked: {printable(node)}"), soft_wrap=True)
    for edge in found.missed_edges:
        line = f"never walked: {edge.origin} {edge.on} → {edge.target}"
        console.print(Text(printable(line)), soft_wrap=True)


def counted(results: Sequence[Result], updated: frozenset[str]) -> dict[str, int]:
    states = [state(result, updated) for result in results]
    return {word: states.count(word) for word in _STYLES}


def in_words(counts: Mapping[str, int]) -> str:
    total = sum(counts.values())
    parts = [f"{count} {word}" for word, count in counts.items() if count or word == "passed"]
    return f"{total} {'case' if total == 1 else 'cases'}: {', '.join(parts)}"


# --- JSON -------------------------------------------------------------------------------------


def golden_document(
    results: Sequence[Result], updated: frozenset[str], found: Coverage, problems: Sequence[str]
) -> dict[str, Any]:
    counts = counted(results, updated)
    return {
        "ok": not (counts["failed"] or counts["unusable"] or problems),
        **counts,
        "problems": list(problems),
        "cases": [_result_document(result, updated) for result in results],
        "coverage": {
            "node_percent": found.node_percent,
            "edge_percent": found.edge_percent,
            "nodes": len(found.nodes),
            "edges": len(found.edges),
            "missed_nodes": list(found.missed_nodes),
            "missed_edges": [[edge.origin, edge.on, edge.target] for edge in found.missed_edges],
        },
    }


def _result_document(result: Result, updated: frozenset[str]) -> dict[str, Any]:
    word = state(result, updated)
    if isinstance(result, Unusable):
        return {
            "name": result.name,
            "file": str(result.file),
            "state": word,
            "findings": [finding_document(one) for one in result.findings],
        }
    return {
        "name": result.case.name,
        "file": str(result.case.file),
        "state": word,
        "recorded": isinstance(result.case.content, Recorded),
        "differences": [
            {
                "part": one.part,
                "node": one.node,
                "expected": one.expected,
                "got": one.got,
                "explanation": _explanation(result, one.node),
            }
            for one in result.differences
        ],
        "unrecorded": [
            {"node": one.node, "query": query_document(one.query)} for one in result.unrecorded
        ],
        "without_verdict": list(result.without_verdict),
    }


def _explanation(result: CaseResult, node: str) -> str:
    found: NodeResult | None = result.seen.results.get(node) if result.seen else None
    verdict = found.verdict if found is not None else None
    return verdict.explanation if verdict is not None else ""
