"""What of a server may be called, and results held against its own schemas."""

from __future__ import annotations

import asyncio
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from mcp.server import Server
from mcp_types import CallToolResult, ListToolsResult, Tool, ToolAnnotations

from triage.adapters.mcp import McpSource, schemas
from triage.adapters.mcp.session import Link
from triage.adapters.mcp.tools_source import ToolsSource
from triage.errors import SourceFailed, SourceFailure
from triage.ports import Shelf
from triage.tool_api import call

if TYPE_CHECKING:
    from collections.abc import Callable

SERVER = Path(__file__).parent.parent / "mcp_servers" / "server.py"
LONG_S = 60.0  # for what must succeed: no assertion depends on how soon
SHORT_S = 0.05  # for what never answers
WRITING = {"note", "unmarked"}


def program(directory: Path, **settings: Any) -> McpSource:
    return McpSource(
        "tools",
        command=sys.executable,
        args=(str(SERVER), "stdio", str(directory)),
        connect_timeout_s=LONG_S,
        **settings,
    )


@pytest.mark.parametrize("allowed", [set(), {"note"}, WRITING])
async def test_tools_that_may_be_called(tmp_path: Path, allowed: set[str]) -> None:
    source = program(tmp_path, allow_tools=frozenset(allowed))
    assert isinstance(source, Shelf)
    await source.open()
    try:
        tools = {tool.name: tool for tool in await source.tools(timeout_s=LONG_S)}
        assert list(tools) == sorted(tools)
        assert WRITING & tools.keys() == allowed
        assert tools.keys() >= {"echo", "reading", "slow"}
        reading = tools["reading"]
        assert reading.description == "Structured."
        assert reading.input_schema["required"] == ["asset"]
        assert reading.output_schema is not None
        assert tools["echo"].output_schema is None
    finally:
        await source.close()


async def test_tools_of_a_server_that_is_not_there(tmp_path: Path) -> None:
    failed = asyncio.Event()

    def backoff(_attempt: int) -> float:
        failed.set()
        return LONG_S

    source = McpSource(
        "tools", command=sys.executable, args=("-c", "import sys; sys.exit(3)"), backoff=backoff
    )
    with pytest.raises(SourceFailed, match="not open"):
        await source.tools(timeout_s=LONG_S)
    await source.open()
    try:
        await failed.wait()
        with pytest.raises(SourceFailed) as caught:
            await source.tools(timeout_s=LONG_S)
        assert caught.value.failure is SourceFailure.CONNECT
    finally:
        await source.close()


async def test_tools_of_a_server_that_never_answers() -> None:
    source = McpSource("tools", command=sys.executable, args=("-c", "import sys; sys.stdin.read()"))
    await source.open()
    try:
        with pytest.raises(SourceFailed) as caught:
            await source.tools(timeout_s=SHORT_S)
        assert caught.value.failure is SourceFailure.TIMEOUT
    finally:
        await source.close()


NUMBERS = {
    "type": "object",
    "properties": {"numbers": {"type": "array", "items": {"type": "number"}}},
    "required": ["numbers"],
}


class Broken(ToolsSource):
    """A server of somebody else's in this process, whose results are what the test says."""

    def __init__(self, result: CallToolResult, schema: dict[str, Any] | None = None) -> None:
        self._result = result
        self._schema = schema or NUMBERS
        super().__init__(
            "tools",
            allow_tools=frozenset(),
            max_bytes=8 << 20,
            connect_timeout_s=LONG_S,
            backoff=None,
            secrets=(),
        )

    def _connect(self) -> Callable[[], Link]:
        tool = Tool(
            name="numbers",
            input_schema={"type": "object"},
            output_schema=self._schema,
            annotations=ToolAnnotations(read_only_hint=True),
        )

        async def list_tools(_context: Any, _params: Any) -> ListToolsResult:
            return ListToolsResult(tools=[tool])

        async def call_tool(_context: Any, _params: Any) -> CallToolResult:
            return self._result

        server = Server("broken", on_list_tools=list_tools, on_call_tool=call_tool)
        return lambda: Link(transport=server, lost=anyio.Event(), why=str)


async def answer(source: Broken) -> Any:
    await source.open()
    try:
        return await source.ask(call("tools", "numbers"), timeout_s=LONG_S)
    finally:
        await source.close()


def structured(value: Any) -> CallToolResult:
    return CallToolResult(content=[], structured_content=value)


@pytest.mark.parametrize("size", [3, 3000])
async def test_results_that_keep_their_word(size: int) -> None:
    numbers = {"numbers": [0.5] * size}
    assert await answer(Broken(structured(numbers))) == numbers


@pytest.mark.parametrize(
    ("result", "problem"),
    [
        (structured({"numbers": ["x"]}), "result 'numbers.0': 'x' is not of type 'number'"),
        (structured({"numbers": [*[0.5] * 3000, "x"]}), "result 'numbers.3000'"),
        (structured({}), "'numbers' is a required property"),
        (CallToolResult(content=[]), "no structured content"),
    ],
    ids=["small", "large", "without", "unstructured"],
)
async def test_results_that_break_it(result: CallToolResult, problem: str) -> None:
    with pytest.raises(SourceFailed) as caught:
        await answer(Broken(result))
    assert caught.value.failure is SourceFailure.PROTOCOL
    assert problem in caught.value.detail


async def test_an_output_schema_that_is_none() -> None:
    for schema in ({"type": "nothing"}, {"$ref": "#/$defs/none"}):
        with pytest.raises(SourceFailed) as caught:
            await answer(Broken(structured({"numbers": []}), schema))
        assert caught.value.failure is SourceFailure.PROTOCOL
        assert "invalid outputSchema" in caught.value.detail


@pytest.mark.parametrize(("size", "beside"), [(3, False), (50_000, True)])
async def test_a_large_result_is_checked_beside_the_event_loop(
    size: int, beside: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[int] = []
    best_match = vars(schemas)["best_match"]

    def noting(errors: Any) -> Any:
        threads.append(threading.get_ident())
        return best_match(errors)

    monkeypatch.setattr(schemas, "best_match", noting)
    numbers = {"numbers": [0.5] * size}
    assert await answer(Broken(structured(numbers))) == numbers
    assert [ident != threading.get_ident() for ident in threads[-1:]] == [beside]
