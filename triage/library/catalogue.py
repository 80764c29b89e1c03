"""What a load gives: callable tools and, for the other nodes, why there is none."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from triage.errors import Finding, ToolFailed, ToolFailure
from triage.library.manifest import VersionStatus
from triage.model.canonical import canonical_json, sha256_hex

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from triage.model.decision import NodeId


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """One node's active tool.

    `queries` and `evaluate` take (warehouse, timestamp, context). `queries` is None for a
    `dynamic` tool, whose `evaluate` returns what is to be awaited. `sha256` is of the source's
    bytes; `stale` when the SOP's text of the node is not the one the tool was made from. `file`
    is what its tracebacks call it, empty for a tool that was made without one.
    """

    node: NodeId
    version: int
    sha256: str
    dynamic: bool = False
    reads_parents: tuple[NodeId, ...] = ()
    queries: Callable[..., Any] | None
    evaluate: Callable[..., Any]
    stale: bool = False
    status: VersionStatus = VersionStatus.ACTIVE
    file: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Library:
    """`broken` holds values to be looked at, not to be raised. `findings` that are no warnings
    say why a node is broken.

    `sha256` is over node, version, hash and manifest switches of the tools, whatever their order.
    """

    tools: Mapping[NodeId, Tool]
    broken: Mapping[NodeId, ToolFailed]
    findings: tuple[Finding, ...] = ()
    sha256: str = field(init=False)
    _entries: dict[NodeId, Tool | ToolFailed] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        tools, broken = dict(self.tools), dict(self.broken)
        digest = sha256_hex(
            canonical_json(
                [
                    [node, tool.version, tool.sha256, tool.dynamic, list(tool.reads_parents)]
                    for node, tool in sorted(tools.items())
                ]
            )
        )
        for name, value in (
            ("tools", MappingProxyType(tools)),
            ("broken", MappingProxyType(broken)),
            ("sha256", digest),
            ("_entries", {**broken, **tools}),
        ):
            object.__setattr__(self, name, value)

    def get(self, node: NodeId) -> Tool | ToolFailed:
        """The node's tool or why it has none; one look-up."""
        entry = self._entries.get(node)
        if entry is None:
            return ToolFailed(ToolFailure.MISSING, f"the library was not loaded for {node}")
        return entry
