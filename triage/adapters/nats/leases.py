"""Which deliveries are still ours, as far as it can be known here.

JetStream does not say: an ack, nak or in-progress of an older delivery counts for the message,
whoever holds it by now (an ack takes it from the other, a nak hands it to a third). So a holder
keeps time itself. A lease is counted from before the request for the delivery, and so ends here
no later than there.
"""

from __future__ import annotations

from triage.ports import Clock


class Leases:
    """`lease_s` from now on; leases that have begun stay as they are."""

    def __init__(self, *, lease_s: float, clock: Clock) -> None:
        self.lease_s = lease_s
        self._clock = clock
        self._ends: dict[str, float] = {}

    def now(self) -> float:
        return self._clock.monotonic()

    def begin(self, token: str, asked_at: float) -> None:
        self._ends[token] = asked_at + self.lease_s

    def holds(self, token: str) -> bool:
        end = self._ends.get(token)
        if end is None:
            return False
        if self.now() < end:
            return True
        del self._ends[token]
        return False

    def end(self, token: str) -> None:
        self._ends.pop(token, None)

    def tidy(self) -> None:
        """Forget those that have ended, of which nobody has spoken since."""
        now = self.now()
        for token in [token for token, end in self._ends.items() if end <= now]:
            del self._ends[token]

    def forget(self) -> None:
        """All of them: what they were of is gone."""
        self._ends.clear()
