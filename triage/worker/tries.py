"""How the attempts of this process ended, for those that come to nothing."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from triage.model.alert import AlertId

MAX_REMEMBERED = 50_000  # alerts; each is forgotten once this process has seen its end
MAX_ERROR = 500  # characters


@dataclass(slots=True)
class Tries:
    """`excused`: decided, and could not be stored. `failed`: given back after an error."""

    excused: int = 0
    failed: int = 0
    last_error: str = ""


_NONE = Tries()


class TriesByAlert:
    """Bounded: an alert that another replica decided meanwhile is never heard of again here."""

    def __init__(self, limit: int = MAX_REMEMBERED) -> None:
        self._limit = limit
        self._tries: OrderedDict[AlertId, Tries] = OrderedDict()

    def excused(self, alert_id: AlertId) -> int:
        found = self._tries.get(alert_id)
        return 0 if found is None else found.excused

    def unseen(self, alert_id: AlertId, attempts: int) -> int:
        """How many of `attempts` begun attempts this process did not see the end of."""
        tries = self._tries.get(alert_id) or _NONE
        return attempts - tries.failed - tries.excused

    def excuse(self, alert_id: AlertId) -> None:
        """An attempt decided the alert, and the store did not take the decision: a disk that
        stays full must not use up its attempts."""
        self._of(alert_id).excused += 1

    def fail(self, alert_id: AlertId, error: Exception) -> None:
        tries = self._of(alert_id)
        tries.failed += 1
        tries.last_error = f"{type(error).__name__}: {error}"[:MAX_ERROR]

    def forget(self, alert_id: AlertId) -> None:
        self._tries.pop(alert_id, None)

    def explain(self, alert_id: AlertId, attempts: int) -> str:
        """Why `attempts` begun attempts came to nothing, for whoever reads the dead letter."""
        tries = self._tries.get(alert_id) or _NONE
        parts = []
        if tries.failed:
            parts.append(
                f"{tries.failed} failed here and gave the alert back, the last with"
                f" {tries.last_error}"
            )
        if tries.excused:
            parts.append(f"{tries.excused} decided it and could not store the decision")
        unseen = self.unseen(alert_id, attempts)
        if unseen > 0:
            parts.append(
                f"of {unseen} this process did not see the end: a process ended or was stopped"
                " during them, or another replica has them in its log"
            )
        head = f"{attempts} attempts ended without a decision"
        return f"{head}: {'; '.join(parts)}" if parts else head

    def _of(self, alert_id: AlertId) -> Tries:
        tries = self._tries.get(alert_id)
        if tries is None:
            tries = self._tries[alert_id] = Tries()
            if len(self._tries) > self._limit:
                self._tries.popitem(last=False)
        return tries
