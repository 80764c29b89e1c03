"""A decision as a tree for people: the one renderer, of decision documents wherever they are from.

All text in a document is a stranger's: it is shown without control characters and never read as
markup. A document that is none raises KeyError, TypeError, ValueError or AttributeError.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from types import MappingProxyType
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from triage.cli.text import printable
from triage.cli.trace_tree import add_trace

Document = Mapping[str, Any]

WORD_STYLES: Mapping[str, str] = MappingProxyType(
    {"true": "bold green", "false": "cyan", "no_data": "bold yellow", "failed": "bold red"}
)
OUTCOME_STYLES: Mapping[str, str] = MappingProxyType(
    {
        "resolved": "green",
        "coalesced": "dim",
        "escalate": "bold red",
        "actions": "bold magenta",
        "inconclusive": "bold yellow",
        "no_fault": "green",
    }
)
_HOLDS = MappingProxyType({True: ("✓", "green"), False: ("✗", "dim"), None: ("?", "yellow")})
SHORT = 12  # characters of a SHA-256 where the whole does not matter
BODY_LIMIT = 4_000  # characters of one answer


def decision_tree(
    document: Document, evidence: Mapping[str, str] | None = None, *, whole_traces: bool = False
) -> RenderableType:
    """`evidence` maps the SHA-256 of an answer to its text; with it, every query is shown. A
    fallback's turns take a line each, unless `whole_traces` are asked for."""
    tree = Tree(_alert_line(document), guide_style="dim")
    tree.add(_text("alert ", document["alert_id"], style="dim"))
    leads = _leads(document["edges"])
    if "alarm" in leads.get(document["alarm"], {}):
        tree.add(_leading("alarm", leads[document["alarm"]]["alarm"]))
    for layer, nodes in groupby(document["nodes"], key=lambda node: node["layer"]):
        branch = tree.add(Text(f"layer {layer}", style="dim"))
        for node in nodes:
            leaf = _add_node(branch, node, document["entity"])
            if "fallback" in node:
                add_trace(leaf, node["fallback"], whole=whole_traces)
            for asked in node["asked"]:
                if evidence is not None or asked["failure"] is not None:
                    _add_asked(leaf, asked, evidence or {})
            word = node["verdict"]
            leaf.add(_leading(word, leads.get(node["node"], {}).get(word, ())))
    _add_actions(tree, document)
    return Group(tree, _facts(document))


def _alert_line(document: Document) -> Text:
    line = _text(document["alarm"] or "(no alarm named)", style="bold")
    for word, key in (("at", "site"), ("on", "entity")):
        if document[key]:
            line.append_text(_text(f" {word} ", document[key]))
    return line.append_text(_text(", fired ", document["fired_at"]))


# --- nodes ------------------------------------------------------------------------------------


def _leads(edges: Sequence[Sequence[str]]) -> dict[str, dict[str, list[str]]]:
    """Where each origin led, by the word that led there."""
    leads: dict[str, dict[str, list[str]]] = {}
    for origin, word, target in edges:
        leads.setdefault(origin, {}).setdefault(word, []).append(target)
    return leads


def _leading(word: str, targets: Sequence[str]) -> Text:
    return _text(f"{word} → ", ", ".join(targets) or "nothing", style="dim")


def _add_node(branch: Tree, node: Document, entity: str) -> Tree:
    word = node["verdict"]
    line = _text(node["node"], style="bold").append(": ")
    line.append_text(_text(word, style=WORD_STYLES.get(word, "")))
    if node["subject"] and node["subject"] != entity:
        line.append_text(_text(" on ", node["subject"]))
    leaf = branch.add(line.append_text(_text(f"  ({_origin(node)})", style="dim")))
    if node["explanation"]:
        leaf.add(_text(node["explanation"], style="italic"))
    for clause in node["clauses"]:
        leaf.add(clause_text(clause))
    for key, who in (("tool_failure", "the tool failed"), ("failure", "failed")):
        failure = node[key]
        if failure is not None:
            leaf.add(_text(f"{who}: ", failure["reason"], ": ", failure["detail"], style="red"))
    return leaf


def _origin(node: Document) -> str:
    parts = [str(node["kind"]).replace("_", " ")]
    if node["tool_version"]:
        parts.append(f"v{node['tool_version']}")
    if node["answered_by"] != "tool":
        parts.append(f"answered by {node['answered_by']}")
    return ", ".join([*parts, f"{node['elapsed_ms']:.1f} ms"])


def clause_text(clause: Document) -> Text:
    mark, style = _HOLDS[clause["holds"]]
    line = _text(clause["name"], ": ", shown(clause["observed"]), " ", clause["op"], " ")
    unit = f" {clause['unit']}" if clause["unit"] else ""
    return line.append_text(_text(shown(clause["threshold"]), unit, " ")).append(mark, style=style)


def shown(value: object) -> str:
    match value:
        case None:
            return "nothing"
        case bool():
            return str(value).lower()
        case float():
            return f"{value:.6g}"
        case _:
            return str(value)


def _add_asked(leaf: Tree, asked: Document, evidence: Mapping[str, str]) -> None:
    failure, digest = asked["failure"], asked["answer_sha256"]
    line = _text("asked ", query_text(asked["query"]))
    if failure is not None:
        leaf.add(line.append_text(_text(f": {failure['reason']}", style="red")))
        return
    line.append_text(
        _text(f"  ({asked['answer_bytes']} bytes, {asked['elapsed_ms']:.1f} ms)", style="dim")
    )
    branch = leaf.add(line)
    body = evidence.get(digest)
    if body is None:
        branch.add(_text("answer ", digest[:SHORT], " is not stored: purged", style="dim"))
    else:
        cut = f" … {len(body)} characters in all" if len(body) > BODY_LIMIT else ""
        branch.add(_text(body[:BODY_LIMIT], cut, style="dim"))


def query_text(query: Document) -> str:
    """A query on one line."""
    kind, source = query["kind"], query["source"]
    match kind:
        case "samples":
            return f"{source}: {query['selector']} in ({query['start']}, {query['end']}]"
        case "aggregate":
            name = query["function"]
            name = f"{name} {query['quantile']}" if "quantile" in query else name
            return f"{source}: {name} of {query['selector']} in ({query['start']}, {query['end']}]"
        case "rows":
            params = ", ".join(f"{k}={shown(v)}" for k, v in query["params"].items())
            return f"{source}: {query['sql']}" + (f" with {params}" if params else "")
        case _:
            arguments = ", ".join(f"{k}={v!r}" for k, v in query["arguments"].items())
            return f"{source}: {query['tool']}({arguments})"


# --- what came of it --------------------------------------------------------------------------


def _add_actions(tree: Tree, document: Document) -> None:
    actions, dropped = document["actions"], document["dropped_actions"]
    if not actions and not dropped:
        return
    branch = tree.add(Text("actions", style="dim"))
    for action in actions:
        branch.add(_action(action, "bold magenta"))
    for action in dropped:
        by = f" by {action['by']}" if action["by"] else ""
        line = _text("dropped ", style="dim").append_text(_action(action, "strike"))
        branch.add(line.append_text(_text(f": {action['dropped']}{by}", style="yellow")))


def _action(action: Document, style: str) -> Text:
    line = _text(action["action"], style=style)
    if action["subject"]:
        line.append_text(_text(" on ", action["subject"]))
    line.append_text(_text(f"  (rank {action['rank']}, {action['cost']} cost)", style="dim"))
    line.append_text(_text(" ", action["text"]))
    return line.append_text(_text(" ← ", ", ".join(action["nodes"]), style="dim"))


def _facts(document: Document) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in _fact_rows(document):
        table.add_row(name, value)
    return table


def _fact_rows(document: Document) -> Iterator[tuple[str, Text]]:
    outcome = document["outcome"]
    said = _text(outcome, style=OUTCOME_STYLES.get(outcome, ""))
    if document["degraded"]:
        said.append(" (degraded: a node could not be judged)")
    if document["reason"]:
        said.append_text(_text(": ", document["reason"]))
    yield "outcome", said
    if document.get("coalesced_into"):
        yield "decided as", _text(document["coalesced_into"], ", which fired shortly before")
    if document.get("coalesced"):
        again = "time" if document["coalesced"] == 1 else "times"
        yield "fired again", _text(document["coalesced"], f" {again}, coalesced into this one")
    for cause in document["root_causes"]:
        subject = (" on ", cause["subject"]) if cause["subject"] else ()
        yield "root cause", _text(cause["node"], *subject)
    for warning in document["warnings"]:
        yield "warning", _text(warning, style="yellow")
    stages = ", ".join(
        f"{name.replace('_', ' ')} {ms:.1f} ms" for name, ms in document["stages_ms"].items()
    )
    trips = document["round_trips"]
    plural = "round trip" if trips == 1 else "round trips"
    if "accepted_to_decided_ms" in document:
        yield "decided", _text(f"{document['accepted_to_decided_ms']:.1f} ms after it was accepted")
    yield "took", _text(f"{trips} {plural} to sources, prefetch {document['prefetch']}; {stages}")
    yield (
        "decided by",
        _text(
            f"SOP {document['sop']} version {document['sop_version']},"
            f" attempt {document['attempt']}, at {document['evaluated_at']}"
        ),
    )
    yield "hash", _text(document["decision_sha256"])


def _text(*parts: object, style: str = "") -> Text:
    return Text(printable("".join(map(str, parts))), style=style)
