"""The sections `[make]`, `[shadow]` and `[watch]` of `triage.toml`."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from triage.app.endpoint_section import EndpointSection
from triage.app.sections import Count, Seconds, Section


class MakeSection(EndpointSection):
    """The tool maker. Its endpoint is the fallback's unless `llm_url` names another.

    `budget_ms` is what one evaluation of a tool may take in the sandbox at the 95th percentile,
    answers not included. With `two_persons` whoever made a version cannot approve it.
    """

    rounds: Annotated[int, Field(ge=0, le=20)] = 3
    max_reply_tokens: Count = 8_000
    context_tokens: Count = 32_000
    request_timeout_s: Seconds = 120.0
    temperature: Annotated[float, Field(ge=0, le=2)] = 0.0
    budget_ms: Annotated[float, Field(gt=0)] = 250.0
    two_persons: bool = False

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.max_reply_tokens >= self.context_tokens:
            raise ValueError("max_reply_tokens must be less than context_tokens")
        return self


class ShadowSection(Section):
    """Versions in shadow, run on what the active ones saw, after the commit.

    `max_waiting` decisions may wait to be compared; one beyond that is counted as dropped. What is
    decided in five seconds waits, but for what fills half of it.
    """

    enabled: bool = True
    workers: Annotated[int, Field(ge=1, le=8)] = 1
    max_waiting: Count = 256


class WatchSection(Section):
    """What looks at tools while they work. `retest_s` is between two re-tests of the active tools
    on their cases, 0 for none; with `live` the sources are asked as well. `save_s` is between two
    writings of what was learned. Of a procedure with more than `metrics_nodes` nodes no shares by
    node are exported, which are seven series a node."""

    enabled: bool = True
    retest_s: Annotated[float, Field(ge=0, le=31 * 86_400, allow_inf_nan=False)] = 86_400.0
    live: bool = True
    save_s: Seconds = 300.0
    metrics_nodes: Annotated[int, Field(ge=0, le=100_000)] = 500
