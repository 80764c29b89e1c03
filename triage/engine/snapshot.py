"""What one attempt is decided with, unchanged while it runs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from triage.evaluation.guard import GuardedSource
from triage.library.catalogue import Library
from triage.model.decision import NodeId, Pinned
from triage.sop.procedure import Sop
from triage.sop.sites import Sites
from triage.traversal import reachable


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """`downstream` maps an alarm to every node its walk could reach, entry nodes first."""

    sop: Sop
    sites: Sites
    library: Library
    sources: Mapping[str, GuardedSource]
    pinned: Pinned
    downstream: Mapping[str, tuple[NodeId, ...]]


def downstream(sop: Sop) -> Mapping[str, tuple[NodeId, ...]]:
    """For every alarm all that its walk could reach; tens of milliseconds for a large SOP."""
    return {alarm: reachable(sop, entry) for alarm, entry in sop.alarms.items()}


def snapshot(
    sop: Sop,
    sites: Sites,
    library: Library,
    sources: Mapping[str, GuardedSource],
    *,
    ways: Mapping[str, tuple[NodeId, ...]] | None = None,
) -> Snapshot:
    """`ways` is `downstream` of the SOP, where it was worked out before."""
    return Snapshot(
        sop=sop,
        sites=sites,
        library=library,
        sources=sources,
        pinned=Pinned(
            sop=sop.name,
            sop_version=sop.version,
            sop_sha256=sop.sha256,
            sites_sha256=sites.sha256,
            library_sha256=library.sha256,
        ),
        downstream=downstream(sop) if ways is None else ways,
    )


Closer = Callable[[GuardedSource], Awaitable[None]]


class SnapshotHolder:
    """The current snapshot, and which older ones attempts still hold.

    A source is closed when no snapshot that anyone holds uses it: two snapshots may share one.
    Belongs to the event loop's thread.
    """

    def __init__(self, first: Snapshot, close: Closer) -> None:
        self._current = first
        self._close = close
        self._holders: dict[int, tuple[Snapshot, int]] = {id(first): (first, 1)}

    @property
    def current(self) -> Snapshot:
        return self._current

    def pin(self) -> Snapshot:
        """The current snapshot, to be given back with `release`."""
        snapshot, count = self._holders[id(self._current)]
        self._holders[id(snapshot)] = (snapshot, count + 1)
        return snapshot

    async def release(self, snapshot: Snapshot) -> None:
        held, count = self._holders[id(snapshot)]
        if count > 1:
            self._holders[id(snapshot)] = (held, count - 1)
            return
        del self._holders[id(snapshot)]
        in_use = {
            id(source) for other, _ in self._holders.values() for source in other.sources.values()
        }
        errors: list[Exception] = []
        for source in snapshot.sources.values():
            if id(source) not in in_use:
                try:
                    await self._close(source)
                except Exception as error:  # noqa: BLE001 - raised below, when all are closed
                    errors.append(error)
        if errors:
            raise ExceptionGroup("sources could not be closed", errors)

    async def replace(self, new: Snapshot) -> None:
        """Make `new` current. Attempts under way keep what they pinned."""
        old, self._current = self._current, new
        held, count = self._holders.get(id(new), (new, 0))
        self._holders[id(new)] = (held, count + 1)
        await self.release(old)

    async def close(self) -> None:
        """Give up the current snapshot; sources close with the last attempt."""
        await self.release(self._current)
