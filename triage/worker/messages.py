"""One message of a producers' stream: as arrivals, or as a dead letter. Nothing waits here."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import NamedTuple

from triage.errors import PayloadError
from triage.intake.fields import FieldMap
from triage.intake.formats import parse
from triage.intake.request import IntakeRequest, Parsed
from triage.model.canonical import canonical_json, sha256_hex
from triage.ports import DeadLetter, StreamMessage

SHOWN_REJECTIONS = 20
DEAD_LETTER_ID_LENGTH = 32  # hex characters
BODY_DIGITS = 16  # hexadecimal, of the SHA-256


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOptions:
    """How the messages of one stream are read. `name` is the configuration's for it;
    `integration` is the format's name unless set.

    A message that fails through a fault of its own, or of this project, is given up at its
    `max_deliveries`-th delivery. Bodies above `max_body_bytes` are given up at once.
    """

    name: str
    format: str
    integration: str = ""
    tenant: str = ""
    batch: int = 100
    max_deliveries: int = 5
    max_body_bytes: int = 4 << 20


class Read(NamedTuple):
    message: StreamMessage
    parsed: Parsed


@dataclass(slots=True)
class Batch:
    """What became of the messages of one receive. `wait_s` is how long to receive no more;
    `held_up` is why, when the store took nothing more."""

    acked: list[StreamMessage] = field(default_factory=list)
    released: list[StreamMessage] = field(default_factory=list)
    wait_s: float = 0.0
    held_up: str = ""


def read(
    message: StreamMessage, options: StreamOptions, field_map: FieldMap, now: datetime
) -> Read:
    """Raises PayloadError when nothing in it can be an alert. An arrival whose format has nothing
    to tell a re-send by gets the message's own place as its key: another delivery of the message
    changes nothing."""
    parsed = parse(
        IntakeRequest(
            format=options.format,
            body=message.body,
            headers=_lowered(message),
            received_at=now,
            tenant=options.tenant,
            integration=options.integration,
        ),
        field_map,
    )
    if not parsed.arrivals:
        raise PayloadError("body", "holds nothing that is an alert")
    place = _place(message, options)
    keyed = tuple(
        arrival if arrival.delivery_key else replace(arrival, delivery_key=f"{place}/{index}")
        for index, arrival in enumerate(parsed.arrivals)
    )
    return Read(message, replace(parsed, arrivals=keyed))


def dead_letter(
    message: StreamMessage,
    options: StreamOptions,
    *,
    reason: str,
    detail: str,
    at: datetime,
) -> DeadLetter:
    """Its id is the same at every delivery, so that the message is buried once."""
    named = canonical_json(["message", _place(message, options)])
    return DeadLetter(
        dead_letter_id=sha256_hex(named)[:DEAD_LETTER_ID_LENGTH],
        stream=options.name,
        format=options.format,
        payload=message.body[: options.max_body_bytes],
        headers=_lowered(message),
        reason=reason,
        detail=detail,
        attempts=message.deliveries,
        at=at,
    )


def too_large(message: StreamMessage, limit: int) -> str:
    return (
        f"the body is {len(message.body)} bytes long, and http.max_body_bytes allows {limit}:"
        " only so much of it is kept here"
    )


def rejections(parsed: Parsed) -> str:
    """Which entries of a batch cannot be alerts, and why."""
    shown = [f"{r.field}: {r.problem}" for r in parsed.rejected[:SHOWN_REJECTIONS]]
    more = len(parsed.rejected) - len(shown)
    head = f"{len(parsed.rejected)} of {len(parsed.arrivals)} entries cannot be alerts: "
    return head + "; ".join(shown) + (f"; and {more} more" if more else "")


def _place(message: StreamMessage, options: StreamOptions) -> str:
    """What is the same at every delivery of this message, and of no other: a stream that was
    deleted and made again counts its messages from 1 again, so what it says belongs to it."""
    return f"{options.name}/{message.message_id}/{sha256_hex(message.body)[:BODY_DIGITS]}"


def _lowered(message: StreamMessage) -> dict[str, str]:
    return {name.lower(): value for name, value in message.headers.items()}
