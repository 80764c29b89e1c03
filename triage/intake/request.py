"""What intake is given, and what it makes of it."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from triage.model.alert import Arrival


def random_id() -> str:
    """32 hex characters that nobody has used."""
    return uuid.uuid4().hex


@dataclass(frozen=True, slots=True, kw_only=True)
class IntakeRequest:
    """One request as it came. `headers` have lower-case names; `received_at` is aware UTC.

    `integration` names the sender among several of one format and is the format's name unless
    set. `new_id` makes the key of a trigger that came without one.
    """

    format: str
    body: bytes = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    received_at: datetime
    tenant: str = ""
    integration: str = ""
    new_id: Callable[[], str] = field(default=random_id, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.integration:
            object.__setattr__(self, "integration", self.format)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected:
    """One entry of a batch that cannot be an alert. `index` is from 0, `field` its whole path."""

    index: int
    field: str
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """An SNS handshake. Only `kind` "confirm" is to be answered, by getting `url` once the
    message's signature is verified; "unsubscribed" tells that the topic stopped sending, and its
    `url` would subscribe again. `url` is https on an AWS host and holds a secret token.
    """

    kind: Literal["confirm", "unsubscribed"]
    topic_arn: str
    url: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsed:
    """Every rejected entry has, besides its row, an EVENT arrival that keeps the entry.

    `reply` is what the format's own answer needs beyond alert ids. `truncated` is how many
    alerts the sender says it left out. `signed` is an SNS message that came straight over HTTPS:
    where signatures are asked for, nothing else here is to be used before it is verified, and a
    request without it carries no signature.
    """

    arrivals: tuple[Arrival, ...] = ()
    rejected: tuple[Rejected, ...] = ()
    reply: Mapping[str, Any] = field(default_factory=dict)
    truncated: int = 0
    subscription: Subscription | None = None
    signed: Mapping[str, Any] | None = field(default=None, repr=False)
