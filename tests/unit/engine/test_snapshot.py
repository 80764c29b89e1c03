"""Which snapshot an attempt has, and when a source is closed."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from tests.unit.evaluation.virtual_time import on_virtual_time
from tests.unit.evaluation.world import (
    World,
    action,
    alert,
    guarded,
    library,
    memory,
    node,
    procedure,
    tool,
    value,
)
from triage.adapters.memory import MemorySource
from triage.engine.snapshot import Snapshot, SnapshotHolder, snapshot
from triage.evaluation.guard import GuardedSource
from triage.sop.sites import no_sites


class Closed:
    """What was closed, in order."""

    def __init__(self) -> None:
        self.names: list[str] = []

    async def __call__(self, source: GuardedSource) -> None:
        await asyncio.sleep(0)
        self.names.append(source.source.name)


def taken(version: int, sources: Mapping[str, GuardedSource]) -> Snapshot:
    sop = procedure(node("a", true=[f"act{version}"]), actions=[action(f"act{version}")],
                    version=version)  # fmt: skip
    return snapshot(sop, no_sites(sop), library(tool("a")), sources)


def source(name: str) -> dict[str, GuardedSource]:
    return {name: guarded(memory(name=name))}


@on_virtual_time
async def test_an_attempt_keeps_what_it_pinned_and_the_next_has_the_new() -> None:
    held = memory({"a": value(20)})
    held.hold()
    sources = {"memory": guarded(held)}
    holder = SnapshotHolder(taken(1, sources), Closed())
    world = World(sop=holder.current.sop, library=library(), sources=[])
    pinned = holder.pin()
    deciding = asyncio.create_task(world.engine.decide(alert(), pinned, lane=world.lanes.take()))
    await held.waiting.wait()
    await holder.replace(taken(2, sources))
    after = holder.pin()
    held.release()
    first = (await deciding).decision
    second = (await world.engine.decide(alert(), after, lane=world.lanes.take())).decision
    assert [one.action for one in first.actions] == ["act1"]
    assert (first.pinned.sop_version, second.pinned.sop_version) == (1, 2)
    assert [one.action for one in second.actions] == ["act2"]


@on_virtual_time
async def test_a_source_is_closed_after_the_last_attempt_on_it_and_once() -> None:
    closed = Closed()
    holder = SnapshotHolder(taken(1, source("old")), closed)
    pins = [holder.pin() for _ in range(3)]
    await holder.replace(taken(2, source("new")))
    for pin in pins:
        assert closed.names == []
        await holder.release(pin)
    assert closed.names == ["old"]
    await holder.close()
    assert closed.names == ["old", "new"]


@on_virtual_time
async def test_without_an_attempt_the_old_sources_close_at_once() -> None:
    closed = Closed()
    holder = SnapshotHolder(taken(1, source("old")), closed)
    await holder.replace(taken(2, source("new")))
    assert closed.names == ["old"]


@on_virtual_time
async def test_a_source_that_the_new_snapshot_has_too_stays_open() -> None:
    closed = Closed()
    shared, old, new = source("shared"), source("old"), source("new")
    holder = SnapshotHolder(taken(1, {**shared, **old}), closed)
    await holder.replace(taken(2, {**shared, **new}))
    assert closed.names == ["old"]
    await holder.close()
    assert sorted(closed.names) == ["new", "old", "shared"]


@on_virtual_time
async def test_a_source_that_only_an_old_attempt_still_has_stays_open_for_it() -> None:
    """Dropped by the second snapshot, and by the third: three generations at once."""
    closed = Closed()
    first, second = source("first"), source("second")
    holder = SnapshotHolder(taken(1, {**first, **second}), closed)
    oldest = holder.pin()
    await holder.replace(taken(2, second))
    middle = holder.pin()
    await holder.replace(taken(3, {}))
    await holder.release(middle)
    assert closed.names == []
    await holder.release(oldest)
    assert sorted(closed.names) == ["first", "second"]


@on_virtual_time
async def test_closing_waits_for_the_attempts() -> None:
    closed = Closed()
    holder = SnapshotHolder(taken(1, source("only")), closed)
    pin = holder.pin()
    await holder.close()
    assert closed.names == []
    await holder.release(pin)
    assert closed.names == ["only"]


@on_virtual_time
async def test_releases_at_once_close_each_source_once() -> None:
    closed = Closed()
    both = {**source("one"), **source("other")}
    holder = SnapshotHolder(taken(1, both), closed)
    pins = [holder.pin() for _ in range(20)]
    await holder.replace(taken(2, {}))
    await asyncio.gather(*(holder.release(pin) for pin in pins))
    assert sorted(closed.names) == ["one", "other"]


@on_virtual_time
async def test_a_source_that_cannot_be_closed_does_not_keep_the_others_open() -> None:
    names: list[str] = []

    async def close(one: GuardedSource) -> None:
        names.append(one.source.name)
        if one.source.name == "bad":
            raise OSError("will not close")

    holder = SnapshotHolder(taken(1, {**source("bad"), **source("good")}), close)
    with pytest.raises((OSError, ExceptionGroup)):
        await holder.replace(taken(2, {}))
    assert sorted(names) == ["bad", "good"]


@on_virtual_time
async def test_replacing_with_the_same_snapshot_closes_nothing() -> None:
    closed = Closed()
    only = taken(1, source("only"))
    holder = SnapshotHolder(only, closed)
    await holder.replace(only)
    assert holder.current is only
    assert closed.names == []
    await holder.close()
    assert closed.names == ["only"]


def test_downstream_is_everything_an_alarm_can_reach() -> None:
    sop = procedure(
        node("a", true=["b"], failed=["c"]), node("b"), node("c", no_data=["d"]), node("d"),
        node("e"),
    )  # fmt: skip
    made = snapshot(sop, no_sites(sop), library(), {"memory": guarded(MemorySource("memory", {}))})
    assert made.downstream == {"al": ("a", "b", "c", "d")}
