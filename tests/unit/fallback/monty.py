"""Code in the sandbox's interpreter, without the sandbox around it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import pydantic_monty

from triage.fallback.prelude import prelude, tool_mode_inputs
from triage.model.site import Site

FIRED_AT = datetime(2026, 11, 18, 15, 7, tzinfo=UTC)
PLAIN_SITE = Site(name="FC1", zone="America/New_York", units={}, facts={})


def plain_inputs(
    *, site: Site = PLAIN_SITE, fired_at: datetime = FIRED_AT, **others: Any
) -> dict[str, Any]:
    given = {"entity": "", "labels": {}, "params": {}, "parents": {}, **others}
    return tool_mode_inputs(site=site, fired_at=fired_at, **given)


class Session:
    def __init__(
        self, session: pydantic_monty.AsyncMontySession, functions: dict[str, Any]
    ) -> None:
        self._session = session
        self.functions = functions

    async def run(self, code: str, **inputs: Any) -> Any:
        """The value of the last expression. Raises MontyError."""
        return await self._session.feed_run(code, inputs=inputs, external_lookup=self.functions)


@asynccontextmanager
async def sandboxed(
    inputs: Mapping[str, Any], functions: Mapping[str, Any] | None = None
) -> AsyncIterator[Session]:
    """A session in which the prelude has run."""
    async with (
        pydantic_monty.AsyncMonty(min_processes=1, max_processes=1) as pool,
        pool.checkout() as checked_out,
    ):
        session = Session(checked_out, dict(functions or {}))
        await session.run(prelude(), **inputs)
        yield session
