"""What a tool may know besides the site's name and the time."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Protocol

from triage.model.query import Answer, Query
from triage.model.site import ParamValue, Site
from triage.model.verdict import Verdict


class Context(Protocol):
    """What a tool may know besides the site's name and the time."""

    @property
    def params(self) -> Mapping[str, ParamValue]:
        """The SOP's params with this site's overrides."""

    @property
    def site(self) -> Site: ...

    @property
    def entity(self) -> str:
        """The asset the alert speaks of, empty when it names none."""

    @property
    def labels(self) -> Mapping[str, str]:
        """The alert's labels. They are data from outside: build selectors with `selector`."""

    @property
    def parents(self) -> Mapping[str, Verdict]:
        """Verdicts of the parents named in the manifest's `reads_parents`; a failed one is
        absent. Only `evaluate` may read it: queries are asked before parents have answered."""

    def answer(self, query: Query) -> Answer:
        """The answer to a query that `queries` returned. Raises LookupError for any other."""

    async def ask(self, query: Query) -> Answer:
        """For dynamic tools: ask now. Raises what ends the node; do not catch it."""

    def localise(self, text: str, *, fold: int = 0) -> datetime:
        """An ISO 8601 timestamp as aware UTC. Without an offset it is taken in the site's zone;
        `fold` 1 picks the second of the two readings of an hour that clocks repeat."""

    def wall_clock(self, moment: datetime) -> datetime:
        """What the site's clocks show at an aware `moment`, without offset; its `fold` is 1 in
        the second of two hours that look the same. The inverse of `localise`."""
