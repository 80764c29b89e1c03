"""What one load of the library leaves for the next, so that a reload does again what changed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from triage.library.policy import Checked, check_source

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from triage.errors import Finding
    from triage.library.manifest import Manifest
    from triage.model.decision import NodeId

Source = tuple[str, bool]
"""SHA-256 of a source and whether it is a dynamic tool's: all that a check depends on."""


class Ready(NamedTuple):
    """A tool's functions in their own namespace, what its check found, and the name of its file
    in tracebacks."""

    queries: Callable[..., Any] | None
    evaluate: Callable[..., Any]
    findings: tuple[Finding, ...]
    file: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    """Of one load. Every file is read and hashed at every load; what is remembered is only what
    follows from the bytes.

    `manifests` maps a node to the bytes of its manifest and what they say. `ready` maps a node
    and a source to what came of it. `passed` are keys of `linted`: sources that had no finding
    and did load.
    """

    root: Path | None = None
    manifests: Mapping[NodeId, tuple[bytes, Manifest]] = field(default_factory=dict)
    ready: Mapping[tuple[NodeId, Source], Ready] = field(default_factory=dict)
    passed: frozenset[str] = frozenset()

    def of(self, root: Path) -> Remembered:
        """What of it counts for a library at `root`: findings name files."""
        return self if self.root == root else Remembered(passed=self.passed)


@dataclass(slots=True)
class Memory:
    """The newest load's, and no older one's: it does not grow from one load to the next.

    One attribute, replaced whole: a load whose reload was cancelled goes on in its thread, and
    may end beside the next.
    """

    latest: Remembered = field(default_factory=Remembered)


class Checks:
    """Sources checked once each, however many tools share one."""

    def __init__(self, done: Mapping[Source, Checked]) -> None:
        self._done = dict(done)

    def check(self, source: Source, body: bytes, *, file: str, node: str) -> Checked:
        """`body` has the hash in `source`. `file` and `node` are those of the first that asks."""
        checked = self._done.get(source)
        if checked is None:
            checked = self._done[source] = check_source(
                body, file=file, node=node, dynamic=source[1]
            )
        return checked
