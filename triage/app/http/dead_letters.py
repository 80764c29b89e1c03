"""Dead letters: what was given up, to read, to try again and to take out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import structlog
from starlette.requests import Request
from starlette.responses import Response

from triage.app.dead_letters import (
    Redrive,
    dead_letter_document,
    no_dead_letter,
    whole_document,
)
from triage.app.delivery_sections import StreamSection
from triage.app.http.access import Gate
from triage.app.http.paging import page_limit
from triage.app.http.persons import who_and_why
from triage.app.http.replies import HttpProblem, reply, store_unavailable
from triage.errors import Overloaded, PayloadError, StoreError
from triage.intake.fields import FieldMap
from triage.ports import Clock, DeadLetterLog, Queue


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterServices:
    """`queue`, `field_map` and `streams` are those of `Redrive`."""

    dead_letters: DeadLetterLog
    queue: Queue
    field_map: Callable[[str], FieldMap | None]
    streams: Mapping[str, StreamSection]
    gate: Gate
    clock: Clock


class DeadLetterEndpoints:
    def __init__(self, services: DeadLetterServices) -> None:
        self._services = services
        self._redrive = Redrive(
            dead_letters=services.dead_letters,
            queue=services.queue,
            clock=services.clock,
            field_map=services.field_map,
            streams=services.streams,
        )
        self._log = structlog.get_logger("triage.dead_letters")

    async def page(self, request: Request) -> Response:
        """The newest first; with `reason` those given up for it."""
        self._services.gate.admit(request, "read")
        query = request.query_params
        limit = page_limit(request)
        try:
            page = await self._services.dead_letters.dead_letter_page(
                reason=query.get("reason", ""), cursor=query.get("cursor", ""), limit=limit
            )
        except PayloadError as error:
            raise HttpProblem(400, str(error)) from error
        except StoreError as error:
            raise store_unavailable(error) from error
        found = [dead_letter_document(letter) for letter in page.dead_letters]
        return reply({"dead_letters": found, "cursor": page.cursor})

    async def one(self, request: Request) -> Response:
        self._services.gate.admit(request, "read")
        dead_letter_id = request.path_params["dead_letter_id"]
        try:
            letter = await self._services.dead_letters.dead_letter(dead_letter_id)
        except StoreError as error:
            raise store_unavailable(error) from error
        if letter is None:
            raise HttpProblem(404, no_dead_letter(dead_letter_id))
        return reply(whole_document(letter))

    async def redrive(self, request: Request) -> Response:
        """422 with the field and the problem while it cannot be an alert still; it stays then."""
        caller = self._services.gate.admit(request, "admin")
        dead_letter_id = request.path_params["dead_letter_id"]
        by, _ = await who_and_why(request, caller)
        try:
            redriven = await self._redrive(dead_letter_id, by=by)
        except PayloadError as error:
            raise HttpProblem(
                422, str(error), detail={"field": error.field, "problem": error.problem}
            ) from error
        except Overloaded as error:
            raise HttpProblem(429, str(error), {"Retry-After": str(error.retry_after_s)}) from error
        except StoreError as error:
            raise store_unavailable(error) from error
        if redriven is None:
            raise HttpProblem(404, no_dead_letter(dead_letter_id))
        document = redriven.document(dead_letter_id)
        self._log.info("redriven", by=by, **document)
        return reply(document)

    async def discard(self, request: Request) -> Response:
        caller = self._services.gate.admit(request, "admin")
        dead_letter_id = request.path_params["dead_letter_id"]
        by, note = await who_and_why(request, caller)
        try:
            discarded = await self._services.dead_letters.discard(
                dead_letter_id, by=by, note=note, at=self._services.clock.now()
            )
        except StoreError as error:
            raise store_unavailable(error) from error
        if not discarded:
            raise HttpProblem(404, no_dead_letter(dead_letter_id))
        self._log.info("discarded", dead_letter_id=dead_letter_id, by=by, note=note)
        return reply({"dead_letter_id": dead_letter_id, "by": by, "note": note})
