"""The `[fallback]` section of `triage.toml`."""

from __future__ import annotations

import re
from typing import Annotated, Self

from pydantic import ByteSize, Field, model_validator

from triage.app.endpoint_section import EndpointSection
from triage.app.sections import MIB, Count, Seconds, Size


class FallbackSection(EndpointSection):
    """The sub-agent for a node whose tool failed; off while `llm_url` is empty.

    `llm_url` is the base of an OpenAI-compatible API, such as http://127.0.0.1:8177/v1. The
    budgets are a node's: `timeout_s` within the alert's `fallback_deadline_s`, `max_tokens` of all
    turns together, prompts and replies. `context_tokens` is the model's window. With
    `structured_output` replies are asked for as JSON of a schema, where the endpoint offers that.
    """

    max_turns: Annotated[int, Field(ge=1, le=100)] = 6
    max_tokens: Count = 40_000
    max_reply_tokens: Count = 4_000
    context_tokens: Count = 16_000
    timeout_s: Seconds = 30.0
    request_timeout_s: Seconds = 20.0
    structured_output: bool = False
    temperature: Annotated[float, Field(ge=0, le=2)] = 0.0
    max_requests: Count = 4
    breaker_failures: Count = 5
    breaker_reset_s: Seconds = 30.0
    max_code_bytes: Size = ByteSize(32 * 1024)
    max_observation_bytes: Size = ByteSize(4 * 1024)
    max_answer_bytes: Size = ByteSize(MIB)
    max_calls: Count = 100
    max_calls_a_second: Annotated[float, Field(gt=0)] = 20.0
    """Of one tool of a source, by all agents together."""
    source_timeout_s: Seconds = 5.0
    source_concurrency: Count = 4
    sandbox_workers: Count = 4
    sandbox_memory_bytes: Size = ByteSize(64 * MIB)
    sandbox_run_s: Seconds = 15.0
    mask: tuple[str, ...] = ()
    """Regular expressions of what must not reach the model, besides what looks like a secret, an
    e-mail address or a telephone number."""

    @property
    def is_on(self) -> bool:
        return bool(self.llm_url)

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.max_reply_tokens >= self.context_tokens:
            raise ValueError("max_reply_tokens must be less than context_tokens")
        for pattern in self.mask:
            try:
                re.compile(pattern)
            except re.error as error:
                raise ValueError(f"mask {pattern!r} is no regular expression: {error}") from None
        return self
