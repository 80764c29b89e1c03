"""Dead letters as people and scripts read them, and what it takes to try one again."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from triage.app.delivery_sections import StreamSection
from triage.errors import QueueError, StoreError
from triage.intake.fields import FieldMap
from triage.intake.request import Parsed, Rejected
from triage.model.alert import Accepted, AcceptStatus
from triage.ports import Clock, DeadLetter, DeadLetterLog, Queue, StreamMessage
from triage.telemetry.delivery_metrics import PARTLY_REJECTED
from triage.worker.messages import StreamOptions, read, rejections


def dead_letter_document(letter: DeadLetter) -> dict[str, Any]:
    """Without the payload and its headers: what a list shows."""
    return {
        "dead_letter_id": letter.dead_letter_id,
        "reason": letter.reason,
        "detail": letter.detail,
        "attempts": letter.attempts,
        "at": letter.at.isoformat(),
        "alert_id": letter.alert_id,
        "alarm": letter.alarm,
        "site": letter.site,
        "severity": letter.severity,
        "stream": letter.stream,
        "format": letter.format,
        "payload_bytes": len(letter.payload),
    }


def whole_document(letter: DeadLetter) -> dict[str, Any]:
    """With `headers` and `payload`; one that is no UTF-8 is `payload_base64` instead."""
    document = {**dead_letter_document(letter), "headers": dict(letter.headers)}
    try:
        document["payload"] = letter.payload.decode()
    except UnicodeDecodeError:
        document["payload_base64"] = base64.b64encode(letter.payload).decode()
    return document


def payload_of(document: Mapping[str, Any]) -> bytes:
    """The payload of a `whole_document`, byte for byte. Raises KeyError, ValueError or
    AttributeError for what is none."""
    encoded = document.get("payload_base64")
    if encoded is not None:
        return base64.b64decode(str(encoded), validate=True)
    text = document["payload"]
    if not isinstance(text, str):
        raise ValueError("payload is no text")
    return text.encode()


def no_dead_letter(dead_letter_id: str) -> str:
    """Why there was nothing to do, in one line."""
    return (
        f"no dead letter {dead_letter_id!r} lies here: it never did, or somebody has dealt with it"
    )


# --- trying again -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Redriven:
    """`work` is decided next. `recorded` arrivals made none: they were known, or are events.
    `rejected` are entries of a batch that cannot be an alert still: for their sake the message
    stays. `delayed` says why the queue was not told, empty when it was: the sweeper then sees to
    it."""

    work: Sequence[Accepted]
    recorded: int
    rejected: Sequence[Rejected]
    delayed: str

    def document(self, dead_letter_id: str) -> dict[str, Any]:
        return {
            "dead_letter_id": dead_letter_id,
            "alert_ids": [one.alert_id for one in self.work],
            "recorded": self.recorded,
            "rejected": [
                {"index": bad.index, "field": bad.field, "problem": bad.problem}
                for bad in self.rejected
            ],
            "stays": bool(self.rejected),
            "delayed": self.delayed,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Redrive:
    """`field_map` gives the current map of a format, None for one that is not known. `streams`
    are the configuration's: they say whose integration and tenant a message is of."""

    dead_letters: DeadLetterLog
    queue: Queue
    clock: Clock
    field_map: Callable[[str], FieldMap | None]
    streams: Mapping[str, StreamSection]

    async def __call__(self, dead_letter_id: str, *, by: str) -> Redriven | None:
        """None when there is no such dead letter. Raises PayloadError when it cannot be an alert
        still, and StoreError; it stays where it is then."""
        letter = await self.dead_letters.dead_letter(dead_letter_id)
        if letter is None:
            return None
        now = self.clock.now()
        parsed = Parsed() if letter.alert_id else self._read(letter, now)
        accepted = await self.dead_letters.redrive(
            dead_letter_id, by=by, at=now, arrivals=parsed.arrivals
        )
        if accepted is None:
            return None
        if parsed.rejected:
            detail = rejections(parsed)
            await self.dead_letters.bury(replace(letter, reason=PARTLY_REJECTED, detail=detail))
        work = [one for one in accepted if one.alert_id and one.status is AcceptStatus.NEW]
        return Redriven(
            work=work,
            recorded=max(0, len(parsed.arrivals) - len(parsed.rejected) - len(work)),
            rejected=parsed.rejected,
            delayed=await self._publish(work),
        )

    def _read(self, letter: DeadLetter, now: datetime) -> Parsed:
        """As the stream's consumer would read it today."""
        section = self.streams.get(letter.stream)
        options = StreamOptions(
            name=letter.stream,
            format=letter.format,
            integration=section.integration if section else "",
            tenant=section.tenant if section else "",
        )
        message = StreamMessage(
            # Of this redrive and no other: a message that was redriven, came to lie here again
            # and is redriven once more is no re-send of itself.
            message_id=f"{letter.dead_letter_id}/{now.isoformat()}",
            token="",
            body=letter.payload,
            headers=letter.headers,
        )
        field_map = self.field_map(letter.format) or FieldMap()
        return read(message, options, field_map, now).parsed

    async def _publish(self, work: Sequence[Accepted]) -> str:
        """They are pending and durable already, so that no failure here loses them."""
        wanted = [(one.alert_id, one.severity) for one in work if one.alert_id is not None]
        if not wanted:
            return ""
        try:
            await self.queue.publish(wanted)
        except (QueueError, StoreError) as error:
            return str(error)
        return ""
