"""Runs candidates in the sandbox, many settings to a session."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from importlib import resources
from typing import Any

from triage.errors import FallbackFailure, SandboxFailed, ToolFailed
from triage.fallback.masking import Mask
from triage.fallback.prelude import prelude, tool_mode_inputs
from triage.model.site import Site
from triage.ports import Sandbox, SandboxError, SandboxSession
from triage.trial import outcome
from triage.trial.exchange import SPOILING, Exchange, Shared
from triage.trial.limits import TrialLimits
from triage.trial.model import FAILED, Answers, Candidate, Ease, Setting, Tried, at_once
from triage.trial.source import source_of

FILE = "serving.py.txt"
STUBS = """
from typing import Any
async def exchange(*, step: str, said: Any) -> Any: ...
async def serve_tool() -> None: ...
"""
"""Of what the tool is started with. The tool's own text is not type-checked: it would cost 13 ms a
session, and refuse what runs in process, where nobody checks types."""

SERVE = "await serve_tool()"


class SandboxTrials:
    """Implements `trial.model.Trials`.

    A call begins a fresh session, and another one after each `limits.settings_a_session` settings
    and after each that a limit ended. Within a session the tool's file is loaded once, so a tool
    that keeps state shows it to the settings that follow: who wants to find that out runs them
    again in another order.

    Any number of calls may run at once; each holds one worker of the sandbox. `mask` cleans what is
    kept of failures. `ease` is awaited before each thing that is done here for the sandbox, for
    whoever has others come first.
    """

    def __init__(
        self,
        sandbox: Sandbox,
        *,
        limits: TrialLimits,
        monotonic: Callable[[], float],
        mask: Mask | None = None,
        ease: Ease = at_once,
    ) -> None:
        self._sandbox = sandbox
        self._limits = limits
        self._monotonic = monotonic
        self._mask = mask or Mask((), ())
        self._ease = ease
        folder = resources.files(__package__ or "triage.trial")
        serving = folder.joinpath(FILE).read_text(encoding="utf-8")
        self._prelude = f"{prelude()}\n{serving}"
        self._inputs = _nothing()

    async def run(
        self, candidate: Candidate, settings: Sequence[tuple[Setting, Answers]]
    ) -> list[Tried]:
        """Raises SandboxFailed, and whatever `Answers` raises beside its failures."""
        try:
            source = source_of(candidate.text)
        except ToolFailed as failed:
            return [outcome.failed(failed, self._mask)] * len(settings)
        shared = Shared(candidate, source, self._limits, self._mask, self._monotonic, self._ease)
        tried: list[Tried] = []
        strikes = 0
        while len(tried) < len(settings):
            left = len(settings) - len(tried)
            if strikes >= self._limits.strikes:
                return tried + [_untried(strikes)] * left
            end = len(tried) + min(left, self._limits.settings_a_session)
            exchange = Exchange(shared, settings[len(tried) : end])
            try:
                await self._session(exchange)
            finally:
                await exchange.close()
            if exchange.fault is not None:
                raise exchange.fault
            if exchange.broken is not None:
                return tried + [exchange.broken] * left
            tried += exchange.tried
            strikes += exchange.strikes
        return tried

    async def _session(self, exchange: Exchange) -> None:
        """Until all settings of the exchange are over, or the session is spoiled."""
        async with self._sandbox.session(
            prelude=self._prelude,
            stubs=STUBS,
            functions={"exchange": exchange.exchange},
            inputs=self._inputs,
        ) as session:
            while not exchange.is_over:
                error = await self._run(session, exchange)
                if error is not None and error.kind in SPOILING:
                    return

    async def _run(self, session: SandboxSession, exchange: Exchange) -> SandboxError | None:
        timer = asyncio.timeout(None)
        error: SandboxError | None = None
        try:
            async with timer:
                exchange.begin_run(timer)
                error = (await session.run(SERVE, timeout_s=self._bound_s())).error
        except TimeoutError:
            if not timer.expired():
                raise
            error = SandboxError("limit", "")
        if error is not None and error.kind == "type":
            raise SandboxFailed(f"what serves a tool in the sandbox is refused there: {error.text}")
        exchange.end_run(error, overtime=timer.expired())
        await exchange.close()
        return error

    def _bound_s(self) -> float:
        """For a run whatever happens: no setting comes to it."""
        limits = self._limits
        return limits.load_s + limits.settings_a_session * (limits.evaluate_s + limits.answers_s)


def _nothing() -> dict[str, Any]:
    """The prelude's globals: no tool can see them, and no setting is in them."""
    return tool_mode_inputs(
        site=Site(name="", zone="UTC", units={}, facts={}),
        fired_at=datetime(1970, 1, 1, tzinfo=UTC),
        entity="",
        labels={},
        params={},
        parents={},
    )


def _untried(strikes: int) -> Tried:
    return Tried(
        value=FAILED,
        failure=FallbackFailure.SANDBOX.value,
        detail=f"not tried: {strikes} settings before it were ended by a limit of the sandbox",
    )
