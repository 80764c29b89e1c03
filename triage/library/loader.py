"""From files to callable tools: verify, then lint, then compile; never import.

One bad tool never stops a load: its node is broken, and the reason is a finding and a value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from triage.errors import Finding, InvalidFiles, ToolFailed, ToolFailure
from triage.library import linted
from triage.library.ahead import Ahead
from triage.library.catalogue import Library, Tool
from triage.library.files import Unreadable, is_folder_name, read_bounded
from triage.library.manifest import (
    Manifest,
    ManifestVersion,
    VersionStatus,
    manifest_path,
    parse_manifest,
    read_manifest_bytes,
    source_path,
    unreadable,
)
from triage.library.memory import Checks, Memory, Ready, Remembered
from triage.library.namespace import Broken, Deferred, Namespaces
from triage.library.policy import SOURCE_LIMIT, check_source
from triage.model.canonical import sha256_hex
from triage.model.decision import NodeId

if TYPE_CHECKING:
    from pathlib import Path

    from triage.library.memory import Source
    from triage.library.namespace import Functions
    from triage.sop.procedure import Node, Sop

__all__ = ["Library", "Tool", "load_library", "read_source", "stale_finding", "strange_folders"]

Quarantined = Mapping[str, str]
"""SHA-256 of a tool's source to the reason it may not run."""


def load_library(
    root: Path,
    sop: Sop,
    *,
    quarantined: Quarantined | None = None,
    memory: Memory | None = None,
    ahead: Ahead | None = None,
) -> Library:
    """Every node's active tool, or why there is none. Raises nothing for what the files hold.

    Blocks for file reads and about 2 ms of CPU a distinct source: call it off the event loop.
    `memory` is of the load before, and is brought up to this one; a source that it knows to have
    passed is compiled when it is first called. `ahead` has been started for this root and is used
    up.
    """
    if not root.is_dir():
        return _nothing(root, sop)
    load = _Load(root, quarantined or {}, memory.latest if memory else Remembered())
    loaded = load.tools(sop, ahead)
    if memory is not None:
        memory.latest = load.remembered()
    return Library(
        tools={node: entry for node, entry in loaded.items() if isinstance(entry, Tool)},
        broken={node: entry for node, entry in loaded.items() if isinstance(entry, ToolFailed)},
        findings=(*load.findings, *strange_folders(root, sop)),
    )


def strange_folders(root: Path, sop: Sop) -> list[Finding]:
    """Folders of the library that no node of the SOP owns, as warnings."""
    return [
        Finding(
            file=str(path),
            where=path.name,
            problem="the SOP has no such node",
            fix="remove the folder, or name it after a node",
            warning=True,
        )
        for path in sorted(root.iterdir())
        if path.name not in sop.nodes and not path.name.startswith((".", "__")) and path.is_dir()
    ]


def read_source(root: Path, node: str, version: ManifestVersion) -> bytes:
    """The verified source of a version. Raises Unreadable, also when the hash differs."""
    path = source_path(root, node, version.version)
    body = read_bounded(path, root=root, limit=SOURCE_LIMIT)
    found = sha256_hex(body)
    if found != version.sha256:
        raise Unreadable(
            path,
            f"is not what was approved: its SHA-256 is {found[:12]}…, "
            f"the manifest says {version.sha256[:12]}…",
            "restore the file from history, or add it as a new version",
        )
    return body


def _nothing(root: Path, sop: Sop) -> Library:
    fix = "create it, or point `library` in the configuration at it"
    return Library(
        tools={},
        broken={
            node: ToolFailed(ToolFailure.MISSING, f"{root.name}/ is not a folder — {fix}")
            for node in sop.nodes
        },
        findings=(Finding(file=str(root), problem="is not a folder", fix=fix),),
    )


class _Found(NamedTuple):
    """A node's active version and its verified source."""

    node: Node
    version: ManifestVersion
    body: bytes

    @property
    def source(self) -> Source:
        return (self.version.sha256, self.version.dynamic)


class _Load:
    """State of one load: `findings` in the order of the nodes, and what is left for the next."""

    def __init__(self, root: Path, quarantined: Quarantined, before: Remembered) -> None:
        self.findings: list[Finding] = []
        self._root = root
        self._quarantined = quarantined
        self._before = before.of(root)
        self._checks = Checks({})
        self._manifests: dict[NodeId, tuple[bytes, Manifest]] = {}
        self._made: dict[tuple[NodeId, Source], Ready] = {}
        self._namespaces = Namespaces()

    def tools(self, sop: Sop, ahead: Ahead | None) -> dict[NodeId, Tool | ToolFailed]:
        """In the SOP's order: first every file is read, so that all there is to compile is
        known at once."""
        found: dict[NodeId, _Found | Broken] = {}
        for node in sop.nodes.values():
            try:
                found[node.node] = self._find(node)
            except Broken as broken:
                found[node.node] = broken
        done = {} if ahead is None else dict(ahead.results())
        new = {
            one.source: one.node.node
            for one in found.values()
            if isinstance(one, _Found) and (one.node.node, one.source) not in self._before.ready
        }
        left = [node for one, node in new.items() if one not in done and not self._passed(one)]
        done.update(Ahead(self._root, left).start().results())
        self._checks = Checks(done)
        return {node: self._tool(one) for node, one in found.items()}

    def remembered(self) -> Remembered:
        """What this load leaves for the next."""
        return Remembered(
            root=self._root,
            manifests=self._manifests,
            ready=self._made,
            passed=frozenset(
                linted.key(*source) for (_, source), one in self._made.items() if not one.findings
            ),
        )

    def _tool(self, found: _Found | Broken) -> Tool | ToolFailed:
        try:
            if isinstance(found, Broken):
                raise found
            return self._ready(found)
        except Broken as broken:
            self.findings += broken.findings
            return ToolFailed(broken.failure, self._detail(broken.findings))

    def _detail(self, findings: Sequence[Finding]) -> str:
        """Details go into decisions: they name files as seen from beside the library."""
        prefix = str(self._root)
        first = str(next((f for f in findings if not f.warning), findings[0]))
        return first.replace(prefix, self._root.name, 1) if first.startswith(prefix) else first

    def _find(self, node: Node) -> _Found:
        manifest = self._manifest(node)
        version = self._active(node, manifest)
        path = source_path(self._root, node.node, version.version)
        try:
            body = read_source(self._root, node.node, version)
        except Unreadable as error:
            failure = ToolFailure.MISSING if error.missing else ToolFailure.TAMPERED
            raise Broken(failure, unreadable(error, node.node)) from None
        reason = self._quarantined.get(version.sha256)
        if reason is not None:
            raise Broken(
                ToolFailure.QUARANTINED,
                Finding(
                    file=str(path),
                    where=node.node,
                    problem=f"is quarantined: {reason}",
                    fix="promote a mended version or roll back",
                    warning=True,
                ),
            )
        return _Found(node, version, body)

    def _ready(self, found: _Found) -> Tool:
        node, version = found.node, found.version
        key = (node.node, found.source)
        ready = self._before.ready.get(key)
        if ready is None:
            ready = self._deferred(found) or self._make(found)
        self._made[key] = ready
        self.findings += ready.findings
        stale = version.sop_text_sha256 != node.text_sha256
        if stale:
            self.findings.append(stale_finding(self._root, node.node, version.version))
        return Tool(
            node=node.node,
            version=version.version,
            sha256=version.sha256,
            dynamic=version.dynamic,
            reads_parents=tuple(NodeId(parent) for parent in version.reads_parents),
            queries=ready.queries,
            evaluate=ready.evaluate,
            file=ready.file,
            stale=stale,
            status=version.status,
        )

    def _manifest(self, node: Node) -> Manifest:
        path = manifest_path(self._root, node.node)
        if not is_folder_name(node.node):
            raise Broken(
                ToolFailure.MISSING,
                Finding(
                    file=str(self._root),
                    where=node.node,
                    problem=f"{node.node!r} cannot be the name of a folder",
                    fix="use letters, digits, `_`, `-` and `.` in node ids",
                ),
            )
        try:
            body = read_manifest_bytes(self._root, node.node)
            known = self._before.manifests.get(node.node)
            if known is None or known[0] != body:
                known = (body, parse_manifest(body, file=path, node=node.node))
        except Unreadable as error:
            if not error.missing:
                raise Broken(ToolFailure.TAMPERED, unreadable(error, node.node)) from None
            raise Broken(
                ToolFailure.MISSING,
                Finding(
                    file=str(path),
                    where=node.node,
                    problem="the node has no tool",
                    fix="add a version and promote it",
                ),
            ) from None
        except InvalidFiles as error:
            # A manifest that contradicts itself vouches for nothing.
            raise Broken(ToolFailure.TAMPERED, *error.findings) from None
        self._manifests[node.node] = known
        return known[1]

    def _active(self, node: Node, manifest: Manifest) -> ManifestVersion:
        version = manifest.active_version
        if version is not None:
            return version
        retired = bool(manifest.versions) and all(
            entry.status is VersionStatus.RETIRED for entry in manifest.versions
        )
        raise Broken(
            ToolFailure.RETIRED if retired else ToolFailure.MISSING,
            Finding(
                file=str(manifest_path(self._root, node.node)),
                where=node.node,
                problem="every version is retired" if retired else "no version is active",
                fix=f"`triage tools promote {node.node} VERSION`"
                if manifest.versions and not retired
                else "add a version and promote it",
            ),
        )

    def _passed(self, source: Source) -> bool:
        return linted.key(*source) in self._before.passed

    def _make(self, found: _Found) -> Ready:
        """Equal sources are compiled once; their tracebacks name the first file of them."""
        node, number = found.node.node, found.version.version
        path = source_path(self._root, node, number)
        checked = self._checks.check(found.source, found.body, file=self._shown(found), node=node)
        findings = tuple(
            Finding(
                file=str(path),
                line=fault.line,
                where=node,
                problem=fault.problem,
                fix=fault.fix,
                warning=fault.warning,
            )
            for fault in checked.findings
        )
        if checked.code is None:
            # `promote` lints too, so an active version that fails was not promoted by it.
            raise Broken(ToolFailure.TAMPERED, *findings)
        queries, evaluate = self._namespaces.functions(
            checked.code, file=str(path), node=node, dynamic=found.version.dynamic
        )
        return Ready(queries, evaluate, findings, evaluate.__code__.co_filename)

    def _deferred(self, found: _Found) -> Ready | None:
        """For a source that was linted and loaded before, by this policy and interpreter."""
        if not self._passed(found.source):
            return None
        # Not this load: what a tool holds on to lives as long as the daemon.
        namespaces, body, file = self._namespaces, found.body, self._shown(found)
        node, dynamic = found.node.node, found.version.dynamic

        def make() -> Functions:
            checked = check_source(body, file=file, node=node, dynamic=dynamic, linted=True)
            if checked.code is None:
                raise Broken(ToolFailure.TAMPERED, *checked.findings)
            return namespaces.functions(checked.code, file=file, node=node, dynamic=dynamic)

        tool = Deferred(make)
        return Ready(None if dynamic else tool.queries, tool.evaluate, (), file)

    def _shown(self, found: _Found) -> str:
        """The file as decisions name it: as seen from beside the library."""
        return f"{self._root.name}/{found.node.node}/v{found.version.version}.py"


def stale_finding(root: Path, node: str, version: int) -> Finding:
    return Finding(
        file=str(source_path(root, node, version)),
        where=node,
        problem="was made from another text of the node than the SOP now has",
        fix="check the tool against the new text, then add and promote a version made from it",
        warning=True,
    )
