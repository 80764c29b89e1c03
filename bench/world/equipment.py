"""The controllers of a site as they truly are at an instant: `canonical.Equipment`."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from typing import Any

import numpy as np

from bench.world.chance import below, stream, uniform
from bench.world.equipment_assets import (
    UnknownAsset,
    doors_of,
    drive_of,
    eyes_of,
    known,
    machine_of,
    rack_of,
    zone_of,
)
from bench.world.equipment_facts import EquipmentFacts, Trailer, facts_of
from bench.world.equipment_links import heard, lost
from bench.world.equipment_trips import Trip, trips
from bench.world.fault_kinds import level
from bench.world.layout import ASSETS, LAYOUT, name
from bench.world.minutes import Episode, Minutes

LOST = -1
SILENT = 0.05  # of half hours have a controller that is not heard for minutes
UNLINKED = 0.05  # … have a controller that does not reach its devices
DOOR_UNLINKED = 0.02  # one of 24 doors is worse than one drive
CARRIERS = 480
DAY_S = 86_400
DEVICES = ("leveller", "restraint", "conveyor")
SETTLED_S = (20, 200)  # after docking until all devices are ready
LEAST_MARGIN = 2

Answer = Mapping[str, Any]


class Controllers:
    """Every answer is a function of seed, site, asset and instant. What it tells was so at
    `as_of`. Null stands as None. Raises UnknownAsset."""

    def __init__(self, facts: EquipmentFacts) -> None:
        self._facts = facts
        self._trips = trips(facts)
        self._keys: dict[tuple[int | str, ...], int] = {}
        self._episodes: dict[tuple[str, str], list[Episode]] = {}
        for episode in facts.episodes:
            self._episodes.setdefault((episode.fault, episode.asset), []).append(episode)
        self._at_door: dict[int, list[Trailer]] = {}
        self._cpts: dict[int, list[int]] = {}
        for trailer in facts.trailers:
            self._at_door.setdefault(trailer.door, []).append(trailer)
            self._cpts.setdefault(trailer.lane, []).append(trailer.cpt)

    # --- safety and drives --------------------------------------------------------------------

    def safety_inputs(self, asset: str, at: int) -> Answer:
        own = machine_of(known(asset))
        zone = zone_of(own)
        as_of = heard(self._key("safety", zone), at, disturbed=SILENT)
        inputs = []
        for machine in dict.fromkeys((own, zone)):
            names = ("estop", "gate", "light-curtain")
            stop = self._active("safety_stop", machine, as_of)
            broken = None if stop is None else below(len(names), self._key("stop", stop.episode))
            unlinked = lost(self._key("safety", "inputs", machine), at, disturbed=UNLINKED)
            inputs += [
                {"name": f"{machine} {word}", "ok": LOST if unlinked else number != broken}
                for number, word in enumerate(names)
            ]
        return {"asset": asset, "as_of": as_of, "inputs": inputs}

    def fault_code(self, asset: str, at: int) -> Answer:
        drive = drive_of(known(asset))
        as_of, unlinked = self._drive_link(drive, at)
        if unlinked:
            return {"asset": asset, "as_of": as_of, "code": LOST, "latched_at": None}
        happened = self._happened(drive, as_of)
        active = [trip.code for trip in happened if as_of < trip.cleared]
        return {
            "asset": asset,
            "as_of": as_of,
            "code": active[-1] if active else 0,
            "latched_at": max((_latched(trip, as_of) for trip in happened), default=None),
        }

    def resets(self, asset: str, at: int) -> Answer:
        """Of the newest code, though it be cleared; of none when nothing latched for a day."""
        drive = drive_of(known(asset))
        as_of, unlinked = self._drive_link(drive, at)
        happened = self._happened(drive, as_of)
        code, protective = 0, False
        for trip in happened:
            if trip.cleared > as_of - DAY_S:
                code, protective = trip.code, trip.protective
        done = [
            reset
            for trip in happened
            if trip.code == code
            for reset in trip.resets
            if as_of - DAY_S < reset <= as_of
        ]
        return {
            "asset": asset,
            "as_of": as_of,
            "code": LOST if unlinked else code,
            "protective": protective and not unlinked,
            "resets": [] if unlinked else sorted(done),
        }

    def _drive_link(self, drive: str, at: int) -> tuple[int, bool]:
        key = self._key("drive", drive)
        return heard(key, at, disturbed=SILENT), lost(key, at, disturbed=UNLINKED)

    def _happened(self, drive: str, at: int) -> list[Trip]:
        """Ascending by when they latched."""
        return [trip for trip in self._trips.get(drive, ()) if trip.latched <= at]

    # --- loop and doors -----------------------------------------------------------------------

    def carriers(self, asset: str, at: int) -> Answer:
        if asset != "LS-1":
            raise UnknownAsset(f"carriers are LS-1's: {asset!r} has none")
        key = self._key("carriers")
        as_of = heard(key, at, disturbed=SILENT)
        if lost(key, at, disturbed=UNLINKED):
            return {"asset": asset, "as_of": as_of, "total": CARRIERS, "disabled": LOST}
        day = as_of // DAY_S
        worn = uniform(key, 3 * day) < 0.12
        usual = 9 + below(4, key, 3 * day + 1) if worn else 2 + below(5, key, 3 * day + 2)
        more = sum(_level(one, as_of) for one in self._episodes.get(("carriers_out", asset), ()))
        disabled = min(CARRIERS, usual + int(CARRIERS * more / 100))
        return {"asset": asset, "as_of": as_of, "total": CARRIERS, "disabled": disabled}

    def doors(self, asset: str, at: int) -> Answer:
        as_of = heard(self._key("doors"), at, disturbed=SILENT)
        doors = [self._door(number, at, as_of) for number in doors_of(asset)]
        return {"asset": asset, "as_of": as_of, "doors": doors}

    def _door(self, number: int, at: int, as_of: int) -> Answer:
        door = name("DD", number)
        docked, since = self._docked(number, as_of)
        unlinked = lost(self._key("door", door), at, disturbed=DOOR_UNLINKED)
        devices = []
        for index, device in enumerate(DEVICES):
            ready, changed = self._device(door, index, docked, since, as_of)
            devices.append({"name": device, "ready": LOST if unlinked else ready, "since": changed})
        return {"door": door, "docked": docked, "devices": devices}

    def _docked(self, door: int, at: int) -> tuple[bool, int]:
        """Whether a trailer stands at the door, and since when or since when none does."""
        trailers = self._at_door.get(door, [])
        following = bisect_right(trailers, at, key=_cpt)
        if following < len(trailers) and LOST < trailers[following].docked <= at:
            return True, trailers[following].docked
        for trailer in reversed(trailers[:following]):
            if trailer.docked != LOST:
                return False, trailer.cpt
        return False, min(self._facts.start, at)

    def _device(self, door: str, index: int, docked: bool, since: int, at: int) -> tuple[bool, int]:
        """Whether it is ready, and since when it is so."""
        for fault in self._episodes.get(("door_fault", door), ()):
            if index != below(len(DEVICES), self._key("device", fault.episode)):
                continue
            if fault.start <= at < fault.end:
                return False, fault.start
            if since < fault.end <= at:
                return True, fault.end
        if not docked:
            # Leveller and restraint are stored; only the conveyor is always ready.
            return DEVICES[index] == "conveyor", since
        least, most = SETTLED_S
        key = self._key("settled", door)
        settled = since + least + below(most - least, key, len(DEVICES) * since + index)
        return (True, settled) if at >= settled else (False, since)

    # --- eyes and routes ----------------------------------------------------------------------

    def eye_margin(self, asset: str, at: int) -> Answer:
        key = self._key("eyes", rack_of(asset))
        as_of = heard(key, at, disturbed=SILENT)
        return {
            "asset": asset,
            "as_of": as_of,
            "eyes": [
                {"eye": eye, "margin_pct": self._margin(eye, at, as_of)} for eye in eyes_of(asset)
            ],
        }

    def _margin(self, eye: str, at: int, as_of: int) -> int:
        key = self._key("eye", eye)
        if lost(key, at, disturbed=UNLINKED):
            return LOST
        dirt = sum(_level(one, as_of) for one in self._episodes.get(("photo_eye_dirty", eye), ()))
        week = as_of // (7 * DAY_S)
        aged = not dirt and uniform(key, 2 * week) < 0.06
        clean = 26 + below(14, key, 2 * week + 1) if aged else 70 + below(5, key, 0)
        noise = below(3, self._key("noise", eye), as_of // 600) - 1
        return max(LEAST_MARGIN, clean + noise - round(dirt))

    def routes(self, at: int) -> Answer:
        as_of = heard(self._key("routes"), at, disturbed=SILENT)
        return {
            "as_of": as_of,
            "routes": [self._route(chute, as_of) for chute in range(LAYOUT["chutes"])],
        }

    def _route(self, index: int, at: int) -> Answer:
        per_lane = LAYOUT["chutes_per_lane"]
        lane, chutes = index // per_lane, ASSETS["CH"]
        key = self._key("route", index)
        day = at // DAY_S
        kind = uniform(key, 3 * day)
        if kind < 0.12:
            alternate = None
        elif kind < 0.72:
            beside = 1 + below(per_lane - 1, key, 3 * day + 1)
            alternate = chutes[lane * per_lane + (index + beside) % per_lane]
        else:
            beside = per_lane * (1 + below(LAYOUT["lanes"] - 1, key, 3 * day + 2))
            alternate = chutes[(index + beside) % len(chutes)]
        enabled = uniform(self._key("enabled", index), at // (DAY_S // 6)) < 0.93
        return {
            "chute": chutes[index],
            "cpt": self._next_cpt(lane + 1, at),
            "alternate": alternate,
            "enabled": enabled,
        }

    def _next_cpt(self, lane: int, at: int) -> int:
        cpts = self._cpts.get(lane, [])
        following = bisect_right(cpts, at)
        if following < len(cpts):
            return cpts[following]
        # Behind the last one planned, the last day's goes on.
        last = cpts[-1] if cpts else self._facts.end
        return last + (max(at - last, 0) // DAY_S + 1) * DAY_S

    # --- shared -------------------------------------------------------------------------------

    def _key(self, *parts: int | str) -> int:
        # A key costs more than what is drawn with it, and there are a few hundred of them.
        found = self._keys.get(parts)
        if found is None:
            found = stream(self._facts.seed, self._facts.site, "equipment", *parts)
            self._keys[parts] = found
        return found

    def _active(self, fault: str, asset: str, at: int) -> Episode | None:
        for episode in self._episodes.get((fault, asset), ()):
            if episode.start <= at < episode.end:
                return episode
        return None


class CanonicalEquipment(Controllers):
    """Of the site `site` of `minutes`."""

    def __init__(self, minutes: Minutes, seed: int, site: int) -> None:
        super().__init__(facts_of(minutes, seed, site))


def _cpt(trailer: Trailer) -> int:
    return trailer.cpt


def _level(episode: Episode, at: int) -> float:
    if not episode.onset <= at < episode.end:
        return 0.0
    return float(level(episode, np.array([at]))[0])


def _latched(trip: Trip, at: int) -> int:
    """The newest latch: a reset that did not hold latched it again."""
    latched = trip.latched
    for reset in trip.resets:
        if reset <= at and reset < trip.cleared:
            latched = reset
    return latched
