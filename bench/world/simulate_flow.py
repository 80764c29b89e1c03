"""The dock in motion, minute by minute: each flow is the least of supply, capacity and space.

All sites move at once. Parcels are whole, and none is lost: what was packed is either out, or on
its way. Delays between the stations are what queues take to fill, and what belts take to travel.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from bench.world.layout import LAYOUT
from bench.world.simulate_plan import CONTAINER

Floats = NDArray[np.float64]

CHUTES, LANES, ZONES = LAYOUT["chutes"], LAYOUT["lanes"], LAYOUT["zones"]
INFEEDS, PER_LANE = LAYOUT["infeeds"], LAYOUT["chutes_per_lane"]
PER_ZONE = CHUTES // ZONES

ACCUMULATION = 225.0  # parcels between packing and an infeed, those on the way included
INFEED = 95.0  # parcels of an infeed
MERGE = 190.0  # parcels between the infeeds and the inducts
PACK_BELT = 3  # minutes from packing to the infeed
LOOP = 480.0  # carriers
LOOP_LOAD = 0.77  # of the usable carriers may be laden
REACH = 0.6  # of the fresh parcels reach their chute within a minute
LAP = 0.4  # of a lap in a minute
MISSED = 0.012  # of parcels take another lap without an attempt
OVERFLOW = 0.16  # a minute, of those that circle: two to three laps
CHUTE = 14.0  # parcels
UNLOAD = 5.5  # parcels a minute from one chute
EMPTIES = 26.0  # containers that a zone is kept at
SUPPLY = 0.4  # of what is missing comes within a minute
USABLE_POSITIONS = 37  # of a staging lane, closed ones not counted
CATCH_UP = 0.25  # packing's spare


@dataclass(slots=True, kw_only=True)
class State:
    """What stands where; whole parcels or containers, as floats."""

    sites: int
    owed: Floats = field(init=False)
    pack_belt: Floats = field(init=False)
    ready: Floats = field(init=False)
    infeed_belt: Floats = field(init=False)
    infeed: Floats = field(init=False)
    merge_belt: Floats = field(init=False)
    merge: Floats = field(init=False)
    fresh: Floats = field(init=False)
    circling: Floats = field(init=False)
    nowhere: Floats = field(init=False)
    chute: Floats = field(init=False)
    container: Floats = field(init=False)
    bare: NDArray[np.bool_] = field(init=False)
    empties: Floats = field(init=False)
    movers: Floats = field(init=False)
    staged: Floats = field(init=False)
    staged_parcels: Floats = field(init=False)
    loaders: Floats = field(init=False)
    clock: int = 0
    packed_total: Floats = field(init=False)
    loaded_total: Floats = field(init=False)
    hospital_total: Floats = field(init=False)

    def __post_init__(self) -> None:
        sites = self.sites
        self.owed = np.zeros((sites, INFEEDS))
        self.pack_belt = np.zeros((PACK_BELT, sites, INFEEDS))
        self.ready = np.zeros((sites, INFEEDS))
        self.infeed_belt = np.zeros((sites, INFEEDS))
        self.infeed = np.zeros((sites, INFEEDS))
        self.merge_belt = np.zeros(sites)
        self.merge = np.zeros(sites)
        self.fresh = np.zeros((sites, CHUTES))
        self.circling = np.zeros((sites, CHUTES))
        self.nowhere = np.zeros(sites)
        self.chute = np.zeros((sites, CHUTES))
        self.container = np.zeros((sites, CHUTES))
        self.bare = np.zeros((sites, CHUTES), dtype=np.bool_)
        self.empties = np.full((sites, ZONES), EMPTIES)
        self.movers = np.zeros((sites, ZONES))
        self.staged = np.zeros((sites, LANES))
        self.staged_parcels = np.zeros((sites, LANES))
        self.loaders = np.zeros((sites, LANES))
        self.packed_total = np.zeros(sites)
        self.loaded_total = np.zeros(sites)
        self.hospital_total = np.zeros(sites)

    def inside(self) -> Floats:
        """Parcels on their way, per site."""
        held: Floats = self.pack_belt.sum(axis=(0, 2)) + self.ready.sum(1) + self.infeed_belt.sum(1)
        held += self.infeed.sum(1) + self.merge_belt + self.merge + self.nowhere
        held += self.fresh.sum(1) + self.circling.sum(1) + self.chute.sum(1)
        held += self.container.sum(1) + self.staged_parcels.sum(1)
        return held


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """Of one stretch, [minute, site] or [minute, site, n]; capacities are parcels a minute."""

    want: Floats  # parcels to pack, per infeed
    infeed_out: Floats  # capacity of an infeed, 0: jammed or stopped
    infeed_in: Floats  # 0: stopped
    robots: Floats  # capacity of all running cells
    manual: Floats
    speed: Floats  # of the loop, share of usual
    usable: Floats  # carriers
    no_read: Floats  # probability, per tunnel
    unrouted: Floats  # probability
    edges: Floats  # cumulated share of the chutes
    divert: Floats  # probability of a failed divert, per chute
    aborted: Floats  # probability of an abort, per chute
    shut: NDArray[np.bool_]  # chute believed full
    unload: Floats  # capacity, per zone
    move: Floats  # containers, per zone
    supply: Floats  # factor, per zone
    borrowed: Floats  # containers that others take, per zone
    load: Floats  # containers, per lane; 0: nothing docked or the door is down
    pulled: NDArray[np.bool_]  # per lane
    chance: Floats  # uniform, [minute, 4, site, chute]
    luck: Floats  # uniform, [minute, site, 8]


@dataclass(frozen=True, slots=True, kw_only=True)
class Flows:
    """What came of it, [minute, site] or [minute, site, n]."""

    pack: Floats
    arrivals: Floats  # per infeed
    released: Floats  # per infeed
    infeed_fill: Floats  # 0..1, at the end of the minute
    robots: Floats
    manual: Floats
    blocked: Floats  # parcels that the inducts held back for want of a carrier
    scans: Floats
    no_reads: Floats
    unassigned: Floats
    recirc: Floats  # laps begun anew
    attempts: Floats
    failed: Floats
    refused: Floats  # lane full
    full: Floats
    empties: Floats
    used: Floats
    staged: Floats
    loaded: Floats


def _record(minutes: int, sites: int) -> Flows:
    def of(*count: int) -> Floats:
        return np.zeros((minutes, sites, *count))

    return Flows(
        pack=of(),
        arrivals=of(INFEEDS),
        released=of(INFEEDS),
        infeed_fill=of(INFEEDS),
        robots=of(),
        manual=of(),
        blocked=of(),
        scans=of(2),
        no_reads=of(2),
        unassigned=of(),
        recirc=of(),
        attempts=of(CHUTES),
        failed=of(CHUTES),
        refused=of(CHUTES),
        full=of(CHUTES),
        empties=of(ZONES),
        used=of(ZONES),
        staged=of(LANES),
        loaded=of(LANES),
    )


def run(state: State, inputs: Inputs) -> Flows:
    """Moves `state` through the stretch, and tells what flowed."""
    minutes, sites = inputs.speed.shape
    flows = _record(minutes, sites)
    for minute in range(minutes):
        routed = _induct(state, inputs, flows, minute)
        _infeeds(state, inputs, flows, minute)
        _divert(state, inputs, flows, minute, routed)
        _build(state, inputs, flows, minute)
        _load(state, inputs, flows, minute)
        state.clock += 1
    return flows


def _infeeds(state: State, inputs: Inputs, flows: Flows, minute: int) -> None:
    want = inputs.want[minute]
    slot = state.clock % PACK_BELT
    held = state.ready + state.pack_belt.sum(axis=0)
    push = want + np.minimum(state.owed, np.floor(want * CATCH_UP))
    pack = np.minimum(push, ACCUMULATION - held)
    state.owed += want - pack
    state.ready += state.pack_belt[slot]
    state.pack_belt[slot] = pack
    room = INFEED - state.infeed - state.infeed_belt
    enter = np.minimum(np.minimum(state.ready, room), inputs.infeed_in[minute])
    state.ready -= enter
    state.infeed += state.infeed_belt
    state.infeed_belt[...] = enter
    go = np.minimum(state.infeed, inputs.infeed_out[minute])
    asked = go.sum(axis=1)
    space = MERGE - state.merge
    tight = asked > space
    if tight.any():
        share = np.where(tight, space / np.maximum(asked, 1), 1.0)
        go = np.floor(go * share[:, None])
    state.infeed -= go
    state.merge_belt[...] = go.sum(axis=1)
    packed = pack.sum(axis=1)
    state.packed_total += packed
    flows.pack[minute] = packed
    flows.arrivals[minute] = enter
    flows.released[minute] = go
    flows.infeed_fill[minute] = (state.infeed + state.infeed_belt) / INFEED


def _induct(state: State, inputs: Inputs, flows: Flows, minute: int) -> Floats:
    luck = inputs.luck[minute]
    state.merge += state.merge_belt
    state.merge_belt[...] = 0
    supply = state.merge
    capacity, hands = inputs.robots[minute], inputs.manual[minute]
    robots = np.minimum(np.ceil(0.85 * supply), capacity)
    manual = np.minimum(supply - robots, hands)
    robots = np.minimum(supply - manual, capacity)
    laden = state.fresh.sum(axis=1) + state.circling.sum(axis=1) + state.nowhere
    space = np.maximum(np.floor(LOOP_LOAD * inputs.usable[minute] - laden), 0)
    space[inputs.speed[minute] < 0.3] = 0
    wish = robots + manual
    share = np.minimum(space / np.maximum(wish, 1), 1.0)
    done = np.floor(robots * share)
    hand = np.minimum(np.floor(manual * share), space - done)
    flows.blocked[minute] = robots - done
    total = done + hand
    state.merge -= total
    flows.robots[minute], flows.manual[minute] = done, hand
    scans = flows.scans[minute]
    scans[:, 0] = np.floor(0.52 * total + luck[:, 0])
    np.minimum(scans[:, 0], total, out=scans[:, 0])
    scans[:, 1] = total - scans[:, 0]
    misses = np.floor(scans * inputs.no_read[minute] + luck[:, 1:3])
    np.minimum(misses, scans, out=misses)
    flows.no_reads[minute] = misses
    reads = total - misses.sum(axis=1)
    lost = np.minimum(np.floor(reads * inputs.unrouted[minute] + luck[:, 3]), reads)
    flows.unassigned[minute] = lost
    routed = reads - lost
    astray = total - routed
    leave = np.floor(state.nowhere * LAP * inputs.speed[minute] + luck[:, 4])
    np.minimum(leave, state.nowhere, out=leave)
    state.nowhere += astray - leave
    state.hospital_total += leave
    parts: Floats = np.floor(routed[:, None] * inputs.edges[minute] + luck[:, 5:6])
    parts[:, 1:] -= parts[:, :-1].copy()
    return parts


def _divert(state: State, inputs: Inputs, flows: Flows, minute: int, routed: Floats) -> None:
    speed = inputs.speed[minute][:, None]
    one, two, three, four = inputs.chance[minute]
    due = np.floor(state.fresh * (REACH * speed) + one)
    np.minimum(due, state.fresh, out=due)
    again = np.floor(state.circling * (LAP * speed) + two)
    np.minimum(again, state.circling, out=again)
    if (speed < 0.3).any():
        moving = speed >= 0.3
        due *= moving
        again *= moving
    state.fresh += routed - due
    passing = due + again
    attempts = passing - (three < MISSED * passing)
    np.maximum(attempts, 0, out=attempts)
    failed = np.minimum(np.floor(attempts * inputs.divert[minute] + four), attempts)
    aborted = np.floor((attempts - failed) * inputs.aborted[minute] + three)
    np.minimum(aborted, attempts - failed, out=aborted)
    apt = attempts - failed - aborted
    before = state.chute >= CHUTE
    take = np.minimum(apt, CHUTE - state.chute)
    take[inputs.shut[minute]] = 0
    state.circling += due - take
    state.chute += take
    flows.attempts[minute], flows.failed[minute] = attempts, failed
    flows.refused[minute] = apt - take + aborted
    out = np.floor(state.circling * (OVERFLOW * speed) + two)
    np.minimum(out, state.circling, out=out)
    state.circling -= out
    state.hospital_total += out.sum(axis=1)
    laps = LAP * inputs.speed[minute] * (state.circling.sum(axis=1) + state.nowhere)
    flows.recirc[minute] = laps
    full = 0.5 * before + 0.5 * (state.chute >= CHUTE)
    flows.full[minute] = np.where(inputs.shut[minute], 1.0, full)


def _build(state: State, inputs: Inputs, flows: Flows, minute: int) -> None:
    sites = state.sites
    room = np.where(state.bare, 0.0, CONTAINER - state.container)
    want = np.minimum(np.minimum(state.chute, UNLOAD), room)
    asked = want.reshape(sites, ZONES, PER_ZONE).sum(axis=2)
    share = np.minimum(inputs.unload[minute] / np.maximum(asked, 1), 1.0)
    share = np.repeat(share, PER_ZONE, axis=1)
    done = np.minimum(np.floor(want * share + inputs.chance[minute, 0]), want)
    state.chute -= done
    state.container += done
    state.movers += inputs.move[minute]
    filled = state.container >= CONTAINER
    if inputs.pulled[minute].any():
        filled |= np.repeat(inputs.pulled[minute], PER_LANE, axis=1) & (state.container > 0)
    used = np.zeros((sites, ZONES))
    if filled.any() or state.bare.any():
        by_lane = filled.reshape(sites, LANES, PER_LANE)
        fits = np.cumsum(by_lane, axis=2) <= (USABLE_POSITIONS - state.staged)[:, :, None]
        by_zone = (by_lane & fits).reshape(sites, ZONES, PER_ZONE)
        by_zone &= np.cumsum(by_zone, axis=2) <= np.floor(state.movers)[:, :, None]
        state.movers -= by_zone.sum(axis=2)
        moved = by_zone.reshape(sites, CHUTES)
        parcels = np.where(moved, state.container, 0.0)
        state.staged += moved.reshape(sites, LANES, PER_LANE).sum(axis=2)
        state.staged_parcels += parcels.reshape(sites, LANES, PER_LANE).sum(axis=2)
        state.container -= parcels
        state.bare |= moved
        bare = state.bare.reshape(sites, ZONES, PER_ZONE)
        given = bare & (np.cumsum(bare, axis=2) <= state.empties[:, :, None])
        used = given.sum(axis=2).astype(np.float64)
        state.bare &= ~given.reshape(sites, CHUTES)
        state.empties -= used
    np.minimum(state.movers, 2.0, out=state.movers)
    missing = SUPPLY * (EMPTIES - state.empties) * inputs.supply[minute]
    state.empties += np.floor(missing + inputs.luck[minute, :, 6:7])
    state.empties -= np.floor(inputs.borrowed[minute] + inputs.luck[minute, :, 7:8])
    np.clip(state.empties, 0, EMPTIES, out=state.empties)
    flows.used[minute] = used
    flows.empties[minute] = state.empties


def _load(state: State, inputs: Inputs, flows: Flows, minute: int) -> None:
    state.loaders += inputs.load[minute]
    count = np.minimum(state.staged, np.floor(state.loaders))
    state.loaders = np.minimum(state.loaders - count, 1.0) * (inputs.load[minute] > 0)
    parcels = np.floor(state.staged_parcels * count / np.maximum(state.staged, 1))
    state.staged -= count
    state.staged_parcels -= parcels
    state.loaded_total += parcels.sum(axis=1)
    flows.loaded[minute] = parcels
    flows.staged[minute] = state.staged
