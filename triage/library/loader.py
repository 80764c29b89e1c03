"""From files to callable tools: verify, then lint, then compile; never import.

One bad tool never stops a load: its node is broken, and the reason is a finding and a value.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from types import CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

from triage.errors import Finding, InvalidFiles, ToolFailed, ToolFailure
from triage.library import rules
from triage.library.catalogue import Library, Tool
from triage.library.files import Unreadable, is_folder_name, read_bounded
from triage.library.manifest import (
    Manifest,
    ManifestVersion,
    VersionStatus,
    manifest_path,
    read_manifest,
    source_path,
    unreadable,
)
from triage.library.policy import SOURCE_LIMIT, Checked, check_source
from triage.model.canonical import sha256_hex
from triage.model.decision import NodeId

if TYPE_CHECKING:
    from pathlib import Path

    from triage.sop.procedure import Node, Sop

__all__ = ["Library", "Tool", "load_library", "read_source", "stale_finding", "strange_folders"]

Quarantined = Mapping[str, str]
"""SHA-256 of a tool's source to the reason it may not run."""


def load_library(root: Path, sop: Sop, *, quarantined: Quarantined | None = None) -> Library:
    """Every node's active tool, or why there is none. Raises nothing for what the files hold.

    Blocks for file reads and about 2 ms of CPU a distinct source: call it off the event loop.
    """
    if not root.is_dir():
        return _nothing(root, sop)
    load = _Load(root, quarantined or {})
    tools: dict[NodeId, Tool] = {}
    broken: dict[NodeId, ToolFailed] = {}
    for node in sop.nodes.values():
        entry = load.tool(node)
        if isinstance(entry, Tool):
            tools[node.node] = entry
        else:
            broken[node.node] = entry
    return Library(
        tools=tools, broken=broken, findings=(*load.findings, *strange_folders(root, sop))
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


class _Broken(Exception):
    def __init__(self, failure: ToolFailure, *findings: Finding) -> None:
        super().__init__()
        self.failure = failure
        self.findings = findings


class _Load:
    """State of one load: what was found, and compiled sources by hash."""

    def __init__(self, root: Path, quarantined: Quarantined) -> None:
        self.findings: list[Finding] = []
        self._root = root
        self._quarantined = quarantined
        self._compiled: dict[tuple[str, bool], Checked] = {}
        self._builtins = {**rules.SAFE_BUILTINS, "__import__": _import_allowed}

    def tool(self, node: Node) -> Tool | ToolFailed:
        try:
            return self._tool(node)
        except _Broken as broken:
            self.findings += broken.findings
            return ToolFailed(broken.failure, self._detail(broken.findings))

    def _detail(self, findings: Sequence[Finding]) -> str:
        """Details go into decisions: they name files as seen from beside the library."""
        prefix = str(self._root)
        first = str(next((f for f in findings if not f.warning), findings[0]))
        return first.replace(prefix, self._root.name, 1) if first.startswith(prefix) else first

    def _tool(self, node: Node) -> Tool:
        manifest = self._manifest(node)
        version = self._active(node, manifest)
        path = source_path(self._root, node.node, version.version)
        try:
            source = read_source(self._root, node.node, version)
        except Unreadable as error:
            failure = ToolFailure.MISSING if error.missing else ToolFailure.TAMPERED
            raise _Broken(failure, unreadable(error, node.node)) from None
        reason = self._quarantined.get(version.sha256)
        if reason is not None:
            raise _Broken(
                ToolFailure.QUARANTINED,
                Finding(
                    file=str(path),
                    where=node.node,
                    problem=f"is quarantined: {reason}",
                    fix="promote a mended version or roll back",
                    warning=True,
                ),
            )
        code = self._code(node, version, source)
        queries, evaluate = self._functions(node, version, code)
        stale = version.sop_text_sha256 != node.text_sha256
        if stale:
            self.findings.append(stale_finding(self._root, node.node, version.version))
        return Tool(
            node=node.node,
            version=version.version,
            sha256=version.sha256,
            dynamic=version.dynamic,
            reads_parents=tuple(NodeId(parent) for parent in version.reads_parents),
            queries=queries,
            evaluate=evaluate,
            stale=stale,
            status=version.status,
        )

    def _manifest(self, node: Node) -> Manifest:
        path = manifest_path(self._root, node.node)
        if not is_folder_name(node.node):
            raise _Broken(
                ToolFailure.MISSING,
                Finding(
                    file=str(self._root),
                    where=node.node,
                    problem=f"{node.node!r} cannot be the name of a folder",
                    fix="use letters, digits, `_`, `-` and `.` in node ids",
                ),
            )
        try:
            return read_manifest(self._root, node.node)[0]
        except Unreadable as error:
            if not error.missing:
                raise _Broken(ToolFailure.TAMPERED, unreadable(error, node.node)) from None
            raise _Broken(
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
            raise _Broken(ToolFailure.TAMPERED, *error.findings) from None

    def _active(self, node: Node, manifest: Manifest) -> ManifestVersion:
        version = manifest.active_version
        if version is not None:
            return version
        retired = bool(manifest.versions) and all(
            entry.status is VersionStatus.RETIRED for entry in manifest.versions
        )
        raise _Broken(
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

    def _code(self, node: Node, version: ManifestVersion, source: bytes) -> CodeType:
        """Equal sources are compiled once; their tracebacks name the first file of them."""
        key = (version.sha256, version.dynamic)
        path = source_path(self._root, node.node, version.version)
        checked = self._compiled.get(key)
        if checked is None:
            checked = self._compiled[key] = check_source(
                source,
                file=f"{self._root.name}/{node.node}/v{version.version}.py",
                node=node.node,
                dynamic=version.dynamic,
            )
        findings = [
            Finding(
                file=str(path),
                line=found.line,
                where=node.node,
                problem=found.problem,
                fix=found.fix,
                warning=found.warning,
            )
            for found in checked.findings
        ]
        if checked.code is None:
            # `promote` lints too, so an active version that fails was not promoted by it.
            raise _Broken(ToolFailure.TAMPERED, *findings)
        self.findings += findings
        return checked.code

    def _functions(
        self, node: Node, version: ManifestVersion, code: CodeType
    ) -> tuple[Callable[..., Any] | None, Callable[..., Any]]:
        path = source_path(self._root, node.node, version.version)

        def broken(failure: ToolFailure, problem: str) -> _Broken:
            return _Broken(
                failure,
                Finding(
                    file=str(path),
                    where=node.node,
                    problem=problem,
                    fix="promote a mended version or roll back",
                ),
            )

        # Dataclasses with string annotations look their module up in sys.modules, where a tool
        # is not; under this name they find one that has what tools may name.
        module = ModuleType(rules.TOOL_API, None)
        module.__dict__["__builtins__"] = self._builtins
        try:
            exec(code, module.__dict__)  # noqa: S102 - verified by hash, approved by a person
        except Exception as error:  # noqa: BLE001 - whatever it raises is the tool's failure
            detail = f"{type(error).__name__}: {error}"
            raise broken(ToolFailure.RAISED, f"raised while loading: {detail}") from None
        queries = module.__dict__.get("queries")
        evaluate = module.__dict__.get("evaluate")
        if not isinstance(evaluate, FunctionType):
            raise broken(ToolFailure.INVALID_RESULT, "`evaluate` is not a function")
        if inspect.iscoroutinefunction(evaluate) is not version.dynamic:
            raise broken(ToolFailure.INVALID_RESULT, "`evaluate` and `dynamic` disagree")
        if version.dynamic:
            return None, evaluate
        if not isinstance(queries, FunctionType):
            raise broken(ToolFailure.INVALID_QUERIES, "`queries` is not a function")
        return queries, evaluate


def _import_allowed(
    name: str,
    globals_: Mapping[str, object] | None = None,
    locals_: Mapping[str, object] | None = None,
    fromlist: Sequence[str] | None = (),
    level: int = 0,
) -> ModuleType:
    if level or name not in rules.ALLOWED_IMPORTS:
        raise ImportError(f"tools may not import {name!r}")
    return __import__(name, globals_, locals_, fromlist or (), level)


def stale_finding(root: Path, node: str, version: int) -> Finding:
    return Finding(
        file=str(source_path(root, node, version)),
        where=node,
        problem="was made from another text of the node than the SOP now has",
        fix="check the tool against the new text, then add and promote a version made from it",
        warning=True,
    )
