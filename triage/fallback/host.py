"""What an agent's code may call: one host function for each tool of the node's own sources."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from triage.errors import SourceFailed, ToolFailed
from triage.fallback.arguments import BadArguments, Checker, plain, spelled
from triage.fallback.limits import AgentLimits
from triage.fallback.listing import Listing, listings
from triage.fallback.masking import Mask
from triage.fallback.names import function_names
from triage.fallback.rates import Rates
from triage.fallback.stubs import HostTool, bound_names, prelude_stubs, stubs
from triage.fallback.words import topics
from triage.model.canonical import sha256_hex
from triage.model.query import Call
from triage.model.question import Question
from triage.model.trace import CallRecord
from triage.ports import HostFunction, SourceCalls, SourceTool

__all__ = ["HostTool", "HostTools", "Rates", "open_host_tools"]

MAX_ERROR = 300  # characters: an error is one line
MAX_RECORDED = 2_000  # characters of a call's arguments in the record
"""Beyond them the record has their SHA-256, so that equal ones can still be told."""

Sleep = Callable[[float], Awaitable[None]]
Envelope = dict[str, object]


class _Shared(NamedTuple):
    calls: SourceCalls
    limits: AgentLimits
    rates: Rates
    monotonic: Callable[[], float]
    mask: Mask
    max_answer_bytes: int
    sleep: Sleep


class _TooOften(Exception):
    pass


class HostTools:
    """Of one attempt. `functions` are exactly the tools of the node's declared sources, by the
    names of `described`; `stubs` declares them, `submit` and the prelude. `unreachable` says of a
    source why its tools could not be listed. `listings` tell of what the sources have.
    `failed_sources` failed and have not answered since.
    """

    def __init__(
        self,
        described: tuple[HostTool, ...],
        unreachable: Mapping[str, str],
        declarations: str,
        shared: _Shared,
        listings: tuple[Listing, ...],
    ) -> None:
        self.described = described
        self.unreachable = unreachable
        self.stubs = declarations
        self.listings = listings
        self.failed_sources: set[str] = set()
        self.functions: Mapping[str, HostFunction] = MappingProxyType(
            {tool.name: self._function(tool) for tool in described}
        )
        self._shared = shared
        self._records: list[CallRecord] = []
        self._made = 0

    def take_records(self) -> tuple[CallRecord, ...]:
        """Of the calls since the last take, in the order they ended."""
        taken, self._records = tuple(self._records), []
        return taken

    def _function(self, tool: HostTool) -> HostFunction:
        checker = Checker(tool.input_schema)

        async def function(*values: object, **arguments: object) -> Envelope:
            return await self._call(tool, checker, values, arguments)

        return function

    async def _call(  # noqa: PLR0911 - one refusal a return
        self,
        tool: HostTool,
        checker: Checker,
        values: tuple[object, ...],
        arguments: Mapping[str, object],
    ) -> Envelope:
        """Cancelled, it leaves a record and passes the cancellation on."""
        began = self._shared.monotonic()
        self._made += 1
        if self._made > self._shared.limits.calls:
            return self._spent(tool)
        try:
            if values:
                raise BadArguments(f"arguments are given by name: {checker.usage}")
            given = plain(arguments)
            text = spelled(given)
            checker.check(given)
        except BadArguments as bad:
            return self._refused(tool, "{}" if values else _names(arguments), str(bad), began)
        recorded = self._recorded(text)
        try:
            await self._pace(tool)
            answer = await self._shared.calls.call(Call(tool.source, tool.tool, text))
        except _TooOften as refusal:
            return self._refused(tool, recorded, str(refusal), began)
        except ToolFailed as failed:
            return self._refused(tool, recorded, failed.detail, began)
        except SourceFailed as failed:
            self.failed_sources.add(tool.source)
            detail = f"the source did not answer ({failed.failure.value}): {failed.detail}"
            return self._refused(tool, recorded, detail, began)
        except asyncio.CancelledError:
            self._refused(tool, recorded, "cut off: the run was over", began)
            raise
        self.failed_sources.discard(tool.source)
        if answer.size > self._shared.max_answer_bytes:
            detail = (
                f"the answer has {answer.size} bytes, the limit is"
                f" {self._shared.max_answer_bytes}: ask for less, with a shorter window, fewer"
                " series or columns, or an aggregate"
            )
            return self._refused(tool, recorded, detail, began, answer.size, answer.sha256)
        self._records.append(
            CallRecord(
                function=tool.name,
                arguments=recorded,
                ok=True,
                answer_bytes=answer.size,
                answer_sha256=answer.sha256,
                elapsed_ms=self._since(began),
            )
        )
        return {"ok": True, "data": answer.data, "error": ""}

    async def _pace(self, tool: HostTool) -> None:
        """Waits for its turn. Raises _TooOften when that is too far off."""
        wait_s = self._shared.rates.reserve(tool.source, tool.tool)
        if wait_s is None:
            raise _TooOften("called too often just now: ask for more at once, less often")
        if wait_s > 0:
            await self._shared.sleep(wait_s)

    def _spent(self, tool: HostTool) -> Envelope:
        """Recorded once: code in a loop would fill the record with it."""
        limit = self._shared.limits.calls
        detail = f"all {limit} calls of this attempt are used up: submit what you know"
        if self._made == limit + 1:
            return self._refused(tool, "{}", detail, self._shared.monotonic())
        return {"ok": False, "data": None, "error": detail}

    def _refused(
        self,
        tool: HostTool,
        recorded: str,
        detail: str,
        began: float,
        size: int = 0,
        sha256: str = "",
    ) -> Envelope:
        error = one_line(self._shared.mask, detail)
        self._records.append(
            CallRecord(
                function=tool.name,
                arguments=recorded,
                ok=False,
                error=error,
                answer_bytes=size,
                answer_sha256=sha256,
                elapsed_ms=self._since(began),
            )
        )
        return {"ok": False, "data": None, "error": error}

    def _recorded(self, text: str) -> str:
        cleaned = self._shared.mask.clean(text)
        if len(cleaned) <= MAX_RECORDED:
            return cleaned
        return f"{cleaned[:MAX_RECORDED]}… sha256 {sha256_hex(text.encode())}"

    def _since(self, began: float) -> float:
        return (self._shared.monotonic() - began) * 1000


def _names(arguments: Mapping[str, object]) -> str:
    """What is known of arguments that are no JSON."""
    kinds = {name: type(value).__name__ for name, value in arguments.items()}
    return spelled(kinds)[:MAX_RECORDED]


def one_line(mask: Mask, text: str) -> str:
    """Scrubbed: masked, without control characters, cut."""
    whole = mask.clean(text.encode(errors="replace").decode())
    line = " ".join("".join(c if c.isprintable() else " " for c in whole).split())
    return line if len(line) <= MAX_ERROR else f"{line[: MAX_ERROR - 1]}…"


async def open_host_tools(
    calls: SourceCalls,
    question: Question,
    *,
    limits: AgentLimits,
    rates: Rates,
    monotonic: Callable[[], float],
    mask: Mask,
    max_answer_bytes: int,
    about: Sequence[str] = (),
    sleep: Sleep = asyncio.sleep,
) -> HostTools:
    """Never raises for a source. `about` are texts beside the question's whose words tell what it
    may need, such as the alarm. A tool whose schema is none is left out: nothing that its server
    would take could be told from what it would not."""
    sources = tuple(dict.fromkeys(question.sources))
    shelves = await asyncio.gather(*(_shelf(calls, source, mask) for source in sources))
    unreachable: dict[str, str] = {}
    found: dict[tuple[str, str], SourceTool] = {}
    for source, shelf in zip(sources, shelves, strict=True):
        if isinstance(shelf, str):
            unreachable[source] = shelf
            continue
        for tool in shelf:
            if Checker.is_usable(tool.input_schema):
                found.setdefault((source, tool.name), tool)
    names = function_names(found, bound_names(prelude_stubs()))
    described = tuple(
        HostTool(
            name=names[key],
            source=key[0],
            tool=key[1],
            description=tool.description,
            input_schema=tool.input_schema,
            output_schema=tool.output_schema,
        )
        for key, tool in sorted(found.items())
    )
    shared = _Shared(calls, limits, rates, monotonic, mask, max_answer_bytes, sleep)
    told = await listings(calls, described, topics(question.text, *about))
    return HostTools(described, unreachable, stubs(described), shared, told)


async def _shelf(calls: SourceCalls, source: str, mask: Mask) -> list[SourceTool] | str:
    """Or why there is none: one task that raised would cancel the others."""
    try:
        return list(await calls.tools(source))
    except (SourceFailed, ToolFailed) as failed:
        return one_line(mask, failed.detail)
