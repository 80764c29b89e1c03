"""The dock's controllers as an MCP server.

`python -m bench.world.equipment_server stdio equipment.json`, or `… http equipment.json PORT`,
which prints the port it listens on (0 takes a free one). The file is what `write_equipment` wrote.
Everything is read-only.
"""

from __future__ import annotations

import argparse
import asyncio
import socket
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.world.equipment_answers import CALLS, BadCall, ServedEquipment
from bench.world.equipment_facts import read_equipment

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer

HOST = "127.0.0.1"
BACKLOG = 128


def build(equipment: ServedEquipment) -> MCPServer:
    """A server with a read-only tool for each of CALLS."""
    # The import costs some seconds of a loaded machine: over HTTP we listen before it.
    from mcp.server.mcpserver import MCPServer
    from mcp_types import ToolAnnotations

    server = MCPServer("dock equipment", version="1.0", log_level="WARNING")
    reads = ToolAnnotations(read_only_hint=True)
    for call, text in CALLS.items():
        tool = _of_site(equipment) if call == "routes" else _of_asset(equipment, call)
        server.add_tool(tool, name=call, description=text, annotations=reads)
    return server


def _of_asset(
    equipment: ServedEquipment, call: str
) -> Callable[[str, str, str], Awaitable[dict[str, Any]]]:
    async def answer(site: str, asset: str, at: str) -> dict[str, Any]:
        return _answer(equipment, call, site, at, asset)

    return answer


def _of_site(equipment: ServedEquipment) -> Callable[[str, str], Awaitable[dict[str, Any]]]:
    async def answer(site: str, at: str) -> dict[str, Any]:
        return _answer(equipment, "routes", site, at, "")

    return answer


def _answer(
    equipment: ServedEquipment, call: str, site: str, at: str, asset: str
) -> dict[str, Any]:
    from mcp.server.mcpserver.exceptions import ToolError

    try:
        return equipment.answer(call, site, at, asset)
    except BadCall as error:
        raise ToolError(str(error)) from None


def _serve_http(equipment: ServedEquipment, port: int) -> None:
    # With the protocol named, asyncio turns off Nagle on what it accepts: 2 ms a call, not 50.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((HOST, port))
    listener.listen(BACKLOG)
    # Listening is enough: who connects before the application is up waits in the backlog.
    sys.stdout.write(f"{listener.getsockname()[1]}\n")
    sys.stdout.flush()
    import uvicorn

    app = build(equipment).streamable_http_app()
    config = uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=1)
    asyncio.run(uvicorn.Server(config).serve(sockets=[listener]))


def main() -> None:
    parser = argparse.ArgumentParser(prog="equipment_server", description=__doc__)
    parser.add_argument("transport", choices=("stdio", "http"))
    parser.add_argument("file", type=Path)
    parser.add_argument("port", type=int, nargs="?", default=0)
    given = parser.parse_args()
    try:
        equipment = ServedEquipment(read_equipment(given.file))
    except (OSError, ValueError) as error:
        sys.exit(f"equipment_server: {error}")
    if given.transport == "http":
        _serve_http(equipment, given.port)
    else:
        build(equipment).run("stdio")


if __name__ == "__main__":
    main()
