"""Who answers for nodes without a tool, for as long as a measurement lasts."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from triage.evaluation.guard import GuardedSource
    from triage.ports import Fallback
    from triage.telemetry.metrics import Metrics


class Staff(Protocol):
    @property
    def model(self) -> str:
        """Whom the agents ask."""

    @property
    def attempt_s(self) -> float:
        """Seconds that one attempt at an alert may take."""

    def at_work(
        self, sources: Mapping[str, GuardedSource], metrics: Metrics
    ) -> AbstractAsyncContextManager[Fallback]:
        """Within this the sources, which are open, are reached over MCP too."""
