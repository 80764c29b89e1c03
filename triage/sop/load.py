"""The SOP file, from bytes to a procedure that can be walked."""

from __future__ import annotations

from pathlib import Path

from triage.errors import Finding, InvalidFiles
from triage.model.canonical import sha256_hex
from triage.model.decision import ActionId, Cost, NodeId, NodeKind
from triage.sop.graph import check_graph
from triage.sop.located import Located
from triage.sop.procedure import Action, Node, Sop
from triage.sop.reading import locate, read_file
from triage.sop.references import check_references, param_of
from triage.sop.shape import ANY, Entries, shape
from triage.sop.sop_file import SOP_SECTIONS, ActionEntry, NodeEntry, ParamEntry, SopFile

_ENTRIES: Entries = {
    (): SopFile,
    ("params", ANY): ParamEntry,
    ("nodes", ANY): NodeEntry,
    ("actions", ANY): ActionEntry,
}


def load_sop(path: Path) -> Sop:
    """The procedure in a file. Raises InvalidFiles, also for a file that cannot be read."""
    body, unreadable = read_file(path)
    if unreadable is not None:
        raise InvalidFiles([unreadable])
    return parse_sop(body, str(path))


def parse_sop(body: bytes, file: str) -> Sop:
    """The procedure in `body`; `file` is what findings call it. Raises InvalidFiles with every
    fault found, warnings included, when one of them is more than a warning."""
    sop, findings = check_sop(body, file)
    if sop is None:
        raise InvalidFiles(findings)
    return sop


def check_sop(body: bytes, file: str) -> tuple[Sop | None, list[Finding]]:
    """The procedure, None when it has a fault that is more than a warning; and every finding, in
    the order of their lines."""
    located, findings = locate(body, file, SOP_SECTIONS)
    if located is None:
        return None, findings
    shaped = shape(located, SopFile, _ENTRIES)
    findings += shaped.findings
    findings += check_references(shaped.file, located)
    findings += check_graph(shaped.file, located, complete=shaped.complete)
    findings.sort(key=lambda finding: finding.line)
    if any(not finding.warning for finding in findings):
        return None, findings
    sop = _procedure(shaped.file, located, sha256_hex(body))
    located.discard()
    while shaped.file.nodes:  # entry by entry, as `discard` does
        shaped.file.nodes.popitem()
    return sop, findings


def _procedure(file: SopFile, located: Located, sha256: str) -> Sop:
    return Sop(
        name=file.sop,
        version=file.version,
        sha256=sha256,
        file=located.file,
        alarms={alarm: tuple(map(NodeId, entry)) for alarm, entry in file.alarms.items()},
        aliases=file.aliases,
        params={name: param_of(entry) for name, entry in file.params.items()},
        nodes={
            NodeId(name): _node(NodeId(name), entry, located.line(("nodes", name)))
            for name, entry in file.nodes.items()
        },
        actions={
            ActionId(name): _action(ActionId(name), entry, located.line(("actions", name)))
            for name, entry in file.actions.items()
        },
    )


def _node(node: NodeId, entry: NodeEntry, line: int) -> Node:
    return Node(
        node=node,
        kind=NodeKind(entry.kind),
        text=entry.text,
        text_sha256=sha256_hex(entry.text.encode()),
        sources=tuple(entry.sources),
        targets={word: tuple(targets) for word, targets in entry.targets.items()},
        unguarded_because=entry.unguarded_because or "",
        line=line,
    )


def _action(action: ActionId, entry: ActionEntry, line: int) -> Action:
    return Action(
        action=action,
        text=entry.text,
        rank=entry.rank,
        cost=Cost(entry.cost),
        yields=entry.yields,
        cancels=frozenset(map(ActionId, entry.cancels)),
        line=line,
    )
