"""A server as a child process, with bounded lines.

The library's own stdio transport holds a line of any length and joins its pieces anew for every
64 KiB read: 50 MB kept the event loop busy for seconds. Here a line over the limit is dropped as
it comes, and its request is answered with ANSWER_TOO_LARGE.
"""

from __future__ import annotations

import logging
import os
import re
import signal
import subprocess
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

import anyio
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage
from mcp_types import ErrorData, JSONRPCError
from mcp_types.jsonrpc import jsonrpc_message_adapter

from triage.adapters.mcp.exchange import ANSWER_TOO_LARGE

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping, Sequence

    from anyio.abc import ByteReceiveStream, ByteSendStream, Process
    from anyio.streams.memory import MemoryObjectSendStream
    from mcp.client._transport import TransportStreams

_log = logging.getLogger(__name__)

_STDERR_KEPT = 1000  # bytes: the last lines say why it died
_EDGE = 512  # bytes at either end of a dropped line, where its id is
_FLUSH_S = 0.5
_GRACE_S = 2.0  # for leaving by itself after its stdin closed, and again after SIGTERM
_POLL_S = 0.01

_ID = rb'"id"\s*:\s*(?:(\d{1,18})|"([^"\\]{1,64})")'
_VERSION = rb'"jsonrpc"\s*:\s*"2\.0"'
_ID_FIRST = re.compile(rb"\s*\{\s*(?:" + _VERSION + rb"\s*,\s*)?" + _ID)
# One closing brace only, so that an id inside the result is not taken for the message's.
_ID_LAST = re.compile(_ID + rb"\s*(?:,\s*" + _VERSION + rb"\s*)?\}\s*$")


class Ending:
    """`lost` is set when the child's output ended; `stderr` holds its last bytes."""

    def __init__(self) -> None:
        self.lost = anyio.Event()
        self.stderr = b""


@asynccontextmanager
async def stdio_transport(
    command: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: str | None,
    limit: int,
    ending: Ending,
) -> AsyncGenerator[TransportStreams]:
    """Streams to a child, which is gone with its whole process group when this ends.

    Raises OSError when it cannot be started.
    """
    # Cut off half-way, it may leave a child and its pipes to nobody; it takes milliseconds.
    with anyio.CancelScope(shield=True):
        process = await anyio.open_process(
            list(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=get_default_environment() | dict(env),
            cwd=cwd,
            start_new_session=True,
        )
    # No await before the task group: a cancellation between would leave the child behind.
    stdin, stdout, stderr = _pipes(process)
    from_child, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outgoing, to_child = anyio.create_memory_object_stream[SessionMessage](0)
    written = anyio.Event()

    async def read() -> None:
        async with from_child:
            try:
                await _read_lines(stdout, from_child, limit)
            finally:
                ending.lost.set()

    async def write() -> None:
        try:
            async with to_child:
                async for message in to_child:
                    body = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                    await stdin.send(body.encode() + b"\n")
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            # The child may live on without listening: the session must not wait for it.
            await from_child.aclose()
            ending.lost.set()
        finally:
            written.set()

    async def keep_stderr() -> None:
        with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
            async for chunk in stderr:
                ending.stderr = (ending.stderr + chunk)[-_STDERR_KEPT:]

    async with anyio.create_task_group() as group:
        group.start_soon(read)
        group.start_soon(write)
        group.start_soon(keep_stderr)
        try:
            yield incoming, outgoing
        finally:
            with anyio.CancelScope(shield=True):
                incoming.close()
                outgoing.close()
                with anyio.move_on_after(_FLUSH_S):
                    await written.wait()
                await _end(process, stdin)
                for stream in (incoming, outgoing, from_child, to_child):
                    stream.close()
            group.cancel_scope.cancel()


def _pipes(process: Process) -> tuple[ByteSendStream, ByteReceiveStream, ByteReceiveStream]:
    if process.stdin is None or process.stdout is None or process.stderr is None:
        raise OSError("the child was started without pipes")
    return process.stdin, process.stdout, process.stderr


async def _read_lines(
    stdout: ByteReceiveStream, out: MemoryObjectSendStream[SessionMessage | Exception], limit: int
) -> None:
    pieces: list[bytes] = []
    size = 0
    head = tail = b""
    dropping = False
    with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError, OSError):
        async for chunk in stdout:
            start = 0
            while (end := chunk.find(b"\n", start)) >= 0:
                piece = chunk[start:end]
                start = end + 1
                if dropping or size + len(piece) > limit:
                    head = head or b"".join(pieces)[:_EDGE] or piece[:_EDGE]
                    message = _too_large(head, (tail + piece)[-_EDGE:])
                else:
                    message = _message(b"".join((*pieces, piece)))
                pieces, size, head, tail, dropping = [], 0, b"", b"", False
                if message is not None:
                    await out.send(message)
            rest = chunk[start:]
            size += len(rest)
            if dropping or size > limit:
                if not dropping:
                    head = (b"".join(pieces) + rest)[:_EDGE]
                    pieces, dropping = [], True
                tail = (tail + rest)[-_EDGE:]
            elif rest:
                pieces.append(rest)


def _message(line: bytes) -> SessionMessage | None:
    if not line.strip():
        return None
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError:
        # Servers that print to stdout are common; one stray line is no reason to drop them.
        _log.debug("an MCP server wrote a line that is no message")
        return None


def _too_large(head: bytes, tail: bytes) -> SessionMessage | None:
    found = _ID_FIRST.match(head) or _ID_LAST.search(tail)
    if found is None:
        _log.warning("an MCP server sent a message too large to read; its request will time out")
        return None
    number, word = found.groups()
    return SessionMessage(
        JSONRPCError(
            jsonrpc="2.0",
            id=int(number) if number is not None else word.decode(errors="replace"),
            error=ErrorData(code=ANSWER_TOO_LARGE, message="the answer is too large"),
        )
    )


async def _end(process: Process, stdin: ByteSendStream) -> None:
    """Ask it to leave, then make it: close stdin, SIGTERM, SIGKILL. Bounded at each step."""
    with suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
        await stdin.aclose()
    if not await _exited(process):
        for sign in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, sign)
            if await _exited(process):
                break
    # What the child started must not outlive it either, nor hold our pipes.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.aclose()


async def _exited(process: Process) -> bool:
    # Not `wait`: asyncio's also waits for the pipes, which a grandchild may hold open.
    with anyio.move_on_after(_GRACE_S):
        while process.returncode is None:  # noqa: ASYNC110 - there is no event that means this
            await anyio.sleep(_POLL_S)
    return process.returncode is not None
