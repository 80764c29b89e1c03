"""How a session gets its connection: one Link an attempt."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import anyio

from triage.adapters.mcp.exchange import wire_limit
from triage.adapters.mcp.face_server import face_server
from triage.adapters.mcp.http import http_transport
from triage.adapters.mcp.session import Link
from triage.adapters.mcp.stdio import Ending, stdio_transport

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from triage.adapters.mcp.face_catalogue import Catalogues
    from triage.ports import Source


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpLink:
    url: str = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    connect_timeout_s: float
    max_bytes: int

    def __call__(self) -> Link:
        return Link(
            transport=http_transport(
                self.url,
                self.headers,
                connect_timeout_s=self.connect_timeout_s,
                limit=wire_limit(self.max_bytes),
            ),
            lost=anyio.Event(),
            why=str,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StdioLink:
    command: tuple[str, ...] = field(repr=False)
    env: Mapping[str, str] = field(repr=False)
    cwd: str | None
    max_bytes: int

    def __call__(self) -> Link:
        ending = Ending()

        def why() -> str:
            said = ending.stderr.decode(errors="replace").strip().splitlines()
            return f"the server ended: {said[-1]}" if ending.lost.is_set() and said else ""

        return Link(
            transport=stdio_transport(
                self.command,
                env=self.env,
                cwd=self.cwd,
                limit=wire_limit(self.max_bytes),
                ending=ending,
            ),
            lost=ending.lost,
            why=why,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FaceLink:
    """To a server of ours over `source`, in this process: nothing is serialised."""

    source: Source
    offered: Collection[str]
    catalogues: Catalogues | None

    def __call__(self) -> Link:
        return Link(
            transport=face_server(self.source, self.offered, self.catalogues),
            lost=anyio.Event(),
            why=str,
            is_ours=True,
        )
