"""What JetStream hands over: a message, and the subject by which it is settled."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import NamedTuple, Self

ACK_PREFIX = "$JS.ACK."
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SHORT = 9  # parts of the subject before 2.10's longer form, which has domain and account in front
_PREFIX = 2
_FIELDS = 7


class Delivered(NamedTuple):
    """`settle` is unique to this delivery. `stored_ns` is when the server stored the message."""

    settle: str
    stream: str
    consumer: str
    deliveries: int
    sequence: int
    stored_ns: int
    subject: str
    headers: Mapping[str, str]
    body: bytes

    @classmethod
    def read(
        cls, subject: str, reply: str, headers: Mapping[str, str] | None, body: bytes
    ) -> Self | None:
        """None when `reply` is not of a delivery."""
        parts = reply.split(".")
        start = _PREFIX if len(parts) == _SHORT else _PREFIX + 2
        fields = parts[start : start + _FIELDS]
        if len(fields) < _FIELDS or not all(part.isdecimal() for part in fields[2:]):
            return None
        return cls(
            settle=reply,
            stream=fields[0],
            consumer=fields[1],
            deliveries=int(fields[2]),
            sequence=int(fields[3]),
            stored_ns=int(fields[5]),
            subject=subject,
            headers=headers or {},
            body=body,
        )

    @property
    def stored_at(self) -> datetime:
        """Aware UTC, to the microsecond."""
        return _EPOCH + timedelta(microseconds=self.stored_ns // 1000)
