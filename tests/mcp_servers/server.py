"""A real MCP server, as a program: `server.py stdio DIR` or `server.py http DIR PORT`.

Over HTTP it prints its port once the socket listens. DIR is where its writing tool writes.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from pathlib import Path
from typing import Any

import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.utilities.types import Image
from mcp_types import ToolAnnotations

READS = ToolAnnotations(read_only_hint=True)
WRITES = ToolAnnotations(read_only_hint=False, destructive_hint=True)


def build(directory: Path) -> MCPServer:
    server = MCPServer("fixture", version="1.2.3", log_level="WARNING")

    @server.tool(annotations=READS)
    def reading(asset: str, window: int = 5) -> dict[str, Any]:
        """Structured."""
        return {"window": window, "asset": asset, "values": [1.5, None, True]}

    @server.tool(annotations=READS, structured_output=False)
    def echo(text: str) -> str:
        """One text block."""
        return text

    @server.tool(annotations=READS, structured_output=False)
    def several() -> list[str]:
        return ["plain", '{"a": 1}']

    @server.tool(annotations=READS, structured_output=False)
    def nothing() -> list[str]:
        return []

    @server.tool(annotations=READS)
    def not_a_number() -> dict[str, float]:
        return {"value": float("nan")}

    @server.tool(annotations=READS, structured_output=False)
    def picture() -> Image:
        return Image(data=b"\x89PNG", format="png")

    @server.tool(annotations=WRITES, structured_output=False)
    def note(text: str) -> str:
        (directory / "note").write_text(text)
        return "written"

    @server.tool(structured_output=False)
    def unmarked() -> str:
        return "nobody said what I do"

    @server.tool(annotations=READS, structured_output=False)
    async def slow() -> str:
        (directory / "slow").touch()
        await asyncio.Event().wait()
        return "never"

    @server.tool(annotations=READS, structured_output=False)
    def failing() -> str:
        raise ToolError("no such asset " + "x" * 5000)

    @server.tool(annotations=READS, structured_output=False)
    def huge(size: int) -> str:
        return "x" * size

    @server.tool(annotations=READS, structured_output=False)
    def pid() -> str:
        return str(os.getpid())

    @server.tool(annotations=READS, structured_output=False)
    def secret() -> str:
        raise ToolError(f"rejected {os.environ.get('FIXTURE_TOKEN', 'none')}")

    @server.tool(annotations=READS, structured_output=False)
    def die() -> str:
        sys.stderr.write(f"fatal: {os.environ.get('FIXTURE_TOKEN', 'no reason')}\n")
        sys.stderr.flush()
        os._exit(3)

    @server.tool(annotations=READS, structured_output=False)
    async def grow(context: Context[Any, Any]) -> str:
        server.add_tool(late, annotations=READS, structured_output=False)
        await context.notify_tools_changed()
        return "grown"

    return server


def late() -> str:
    return "here"


def serve_http(server: MCPServer, port: int) -> None:
    # With the protocol named, asyncio turns off Nagle on what it accepts: 2 ms a call, not 50.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen(128)
    # Listening is enough: who connects before the application is up waits in the backlog.
    sys.stdout.write(f"{listener.getsockname()[1]}\n")
    sys.stdout.flush()
    app = server.streamable_http_app()
    config = uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=1)
    asyncio.run(uvicorn.Server(config).serve(sockets=[listener]))


def main() -> None:
    server = build(Path(sys.argv[2]))
    if sys.argv[1] == "http":
        serve_http(server, int(sys.argv[3]))
    else:
        server.run("stdio")


if __name__ == "__main__":
    main()
