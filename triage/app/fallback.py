"""The fallback of a configuration: model, sandbox and agent, put together and taken apart."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import structlog

from triage.app.fallback_section import FallbackSection
from triage.ports import ChatModel, Clock, Fallback, Sandbox
from triage.telemetry.fallback_metrics import FallbackMetrics

NONE = "off: none is configured"


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """`fallback` is None when none is configured, or when its sandbox could not start."""

    fallback: Fallback | None = None
    model: ChatModel | None = None
    sandbox: Sandbox | None = None

    @property
    def state(self) -> str:
        """For readiness: "ok", or what is wrong. A fallback that cannot run makes nobody unready:
        alerts whose tools work are decided as ever."""
        if self.sandbox is None or self.model is None:
            return NONE
        if self.sandbox.trouble:
            return f"off: {self.sandbox.trouble}"
        return self.model.trouble or "ok"


@asynccontextmanager
async def agent(
    section: FallbackSection,
    *,
    library: Path,
    secrets: Sequence[str],
    metrics: FallbackMetrics,
    clock: Clock,
) -> AsyncIterator[Agent]:
    """`library` is where recorded traces lie, the worked examples of the prompt; `secrets` are
    what must never reach the model. Closed at the end."""
    if not section.is_on:
        yield Agent()
        return
    # The interpreter's library costs 20 MB, which a daemon without a fallback need not pay.
    from triage.adapters.chat import ChatEndpoint
    from triage.adapters.sandbox import MontySandbox, SandboxLimits
    from triage.fallback.agent import CodeAct
    from triage.fallback.examples import examples_of
    from triage.fallback.host import Rates
    from triage.fallback.limits import AgentLimits
    from triage.fallback.masking import Mask
    from triage.fallback.prompt import Prompt
    from triage.fallback.reply import REPLY_SCHEMA

    sandbox = MontySandbox(
        SandboxLimits(
            workers=section.sandbox_workers,
            memory_bytes=section.sandbox_memory_bytes,
            feed_s=section.sandbox_run_s,
            result_bytes=section.max_answer_bytes,
        )
    )
    model = ChatEndpoint(
        section.model,
        section.llm_url,
        api_key=section.secret("api_key"),
        ca_file=str(section.ca_file or ""),
        temperature=section.temperature,
        reply_schema=REPLY_SCHEMA if section.structured_output else None,
        request_timeout_s=section.request_timeout_s,
        max_requests=section.max_requests,
        breaker_failures=section.breaker_failures,
        breaker_reset_s=section.breaker_reset_s,
        monotonic=clock.monotonic,
    )
    try:
        await model.open()
        await sandbox.open()
        if sandbox.trouble:
            structlog.get_logger("triage.fallback").error("fallback_off", problem=sandbox.trouble)
        made = Agent(
            fallback=None
            if sandbox.trouble
            else CodeAct(
                model=model,
                sandbox=sandbox,
                prompt=Prompt.load(as_json=section.structured_output),
                examples=examples_of(library),
                limits=AgentLimits(
                    turns=section.max_turns,
                    tokens=section.max_tokens,
                    reply_tokens=section.max_reply_tokens,
                    context_tokens=section.context_tokens,
                    timeout_s=section.timeout_s,
                    request_timeout_s=section.request_timeout_s,
                    run_s=section.sandbox_run_s,
                    code_bytes=section.max_code_bytes,
                    observation_bytes=section.max_observation_bytes,
                    calls=section.max_calls,
                ),
                rates=Rates(section.max_calls_a_second, monotonic=clock.monotonic),
                mask=Mask(section.mask, secrets),
                max_answer_bytes=section.max_answer_bytes,
                metrics=metrics,
                monotonic=clock.monotonic,
            ),
            model=model,
            sandbox=sandbox,
        )
        metrics.watch(up=lambda: made.state == "ok", breaker_open=lambda: bool(model.trouble))
        yield made
    finally:
        await model.close()
        await sandbox.close()
