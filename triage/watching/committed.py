"""What whoever watches a decision is given, once it is stored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from triage.model.decision import Decision
    from triage.sop.procedure import Sop
    from triage.sop.sites import Sites


class Committed(Protocol):
    """A decision that is stored. `evidence` maps SHA-256 to the bytes of an answer."""

    @property
    def decision(self) -> Decision: ...
    @property
    def evidence(self) -> Mapping[str, bytes]: ...


class Pinned(Protocol):
    """What it was decided with."""

    @property
    def sop(self) -> Sop: ...


class PinnedSites(Pinned, Protocol):
    """With the sites, for whoever asks a tool again."""

    @property
    def sites(self) -> Sites: ...
