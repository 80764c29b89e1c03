"""What the episodes do to the dock: capacities, sensors and routing, minute by minute."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.world.fault_kinds import area_of, gap_group, level
from bench.world.layout import ASSETS, LAYOUT
from bench.world.minutes import SILENT_GROUPS, Episode

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
OUTBOUND = ("induct", "sort", "stage", "load")
DIRTY_POINTS = 56.0  # of margin lost: from here on an eye reads blocked
RESTART = (0.62, 0.74, 0.9)  # of its speed the loop makes in the minutes after a stop


@dataclass(frozen=True, slots=True, kw_only=True)
class Effects:
    """Of one stretch of minutes, [site, minute] or with an asset behind. Factors are 1 when all is
    well, everything else is 0. Floats are in the units of the fault kinds."""

    pack: Floats  # factor on packing
    infeed_stop: Flags  # an infeed stands still
    jam: NDArray[np.int8]  # per infeed: number of the jammed eye, 0: none
    cell_down: Flags
    cell_service: Flags
    cell_rate: Floats  # factor
    cell_fail: Floats  # points
    leak: Floats
    freeflow: Floats
    no_grasp: Floats
    loop_speed: Floats  # factor
    carriers: Floats  # share out of use
    slip: Floats  # percent
    unrouted: Floats  # percent of reads
    aborted: Floats  # percent of diverts, without a full chute
    air: Floats  # bar lost
    no_read: Floats  # points, per tunnel
    gap: Floats  # share lost
    mix: Floats  # points
    divert: Floats  # points, per chute
    surge: Floats  # factor on a chute's share of the parcels
    chute_shut: Flags  # its own eye reads full
    labor: Floats  # factor, per outbound area
    supply: Floats  # factor on empties, per zone
    borrowed: Floats  # empties a minute that other docks take, per zone
    door: Flags  # per door: cannot load
    heat: Floats  # degrees, per drive
    eye_dirty: Flags
    eye_dense: Flags
    silent: Flags  # per group of SILENT_GROUPS
    warehouse_silent: Flags


def _blank(sites: int, minutes: int) -> Effects:
    def of(prefix: str | None, dtype: Any, value: float) -> Any:
        shape = (sites, minutes) if prefix is None else (sites, minutes, len(ASSETS[prefix]))
        return np.full(shape, value, dtype=dtype)

    return Effects(
        pack=of(None, np.float64, 1),
        infeed_stop=of("INF", np.bool_, 0),
        jam=of("INF", np.int8, 0),
        cell_down=of("RC", np.bool_, 0),
        cell_service=of("RC", np.bool_, 0),
        cell_rate=of("RC", np.float64, 1),
        cell_fail=of("RC", np.float64, 0),
        leak=of("RC", np.float64, 0),
        freeflow=of("RC", np.float64, 0),
        no_grasp=of("RC", np.float64, 0),
        loop_speed=of(None, np.float64, 1),
        carriers=of(None, np.float64, 0),
        slip=of(None, np.float64, 0),
        unrouted=of(None, np.float64, 0),
        aborted=of(None, np.float64, 0),
        air=of(None, np.float64, 0),
        no_read=of("ST", np.float64, 0),
        gap=of(None, np.float64, 0),
        mix=of(None, np.float64, 0),
        divert=of("CH", np.float64, 0),
        surge=of("CH", np.float64, 1),
        chute_shut=of("CH", np.bool_, 0),
        labor=np.ones((sites, minutes, len(OUTBOUND))),
        supply=of("ZN", np.float64, 1),
        borrowed=of("ZN", np.float64, 0),
        door=of("DD", np.bool_, 0),
        heat=of("DRV", np.float64, 0),
        eye_dirty=of("PE", np.bool_, 0),
        eye_dense=of("PE", np.bool_, 0),
        silent=np.zeros((sites, minutes, len(SILENT_GROUPS)), dtype=np.bool_),
        warehouse_silent=of(None, np.bool_, 0),
    )


def effects(episodes: Sequence[Episode], start: int, minutes: int, sites: int) -> Effects:
    """Those of the minutes from `start` on; episodes elsewhere do nothing.

    Raises KeyError for a fault that this world does not know.
    """
    made = _blank(sites, minutes)
    # a stop is felt for some minutes after its end
    felt = [
        one
        for one in episodes
        if one.onset < start + 60 * minutes and one.end + 60 * len(RESTART) > start
    ]
    for one in felt:
        first = max(one.onset - start, 0) // 60
        last = min(max(one.end - start, 0) // 60, minutes)
        at = start + 60 * np.arange(first, last, dtype=np.int64)
        how = _Stretch(made, one, start, slice(first, last), level(one, at))
        _DO[one.fault](how)
    return made


@dataclass(frozen=True, slots=True)
class _Stretch:
    to: Effects
    of: Episode
    start: int
    when: slice
    level: Floats

    @property
    def place(self) -> tuple[int, slice]:
        return self.of.site, self.when

    def index(self, asset: str = "") -> int:
        asset = asset or self.of.asset
        return ASSETS[asset.partition("-")[0]].index(asset)

    def at(self, index: int) -> tuple[int, slice, int]:
        return self.of.site, self.when, index


def _stop_loop(how: _Stretch) -> None:
    how.to.loop_speed[how.place] = 0.0
    after = (how.of.end - how.start) // 60
    for step, speed in enumerate(RESTART):
        if 0 <= after + step < how.to.loop_speed.shape[1]:
            at = (how.of.site, after + step)
            how.to.loop_speed[at] = min(how.to.loop_speed[at], speed)


def _stop(how: _Stretch) -> None:
    prefix, _, number = how.of.asset.partition("-")
    match prefix:
        case "LS":
            _stop_loop(how)
        case "INF":
            how.to.infeed_stop[how.at(how.index())] = True
        case "RC":
            how.to.cell_down[how.at(how.index())] = True
        case _ if number == "0":
            _stop_loop(how)
        case _ if int(number) >= 10:
            how.to.cell_down[how.at(int(number) - 10)] = True
        case _:
            how.to.infeed_stop[how.at(int(number) - 1)] = True


def _overload(how: _Stretch) -> None:
    how.to.heat[how.at(how.index())] += how.level
    if how.of.asset == "DRV-0":
        how.to.loop_speed[how.place] *= 1 - 0.0016 * how.level


def _air(how: _Stretch) -> None:
    how.to.air[how.place] += how.level
    how.to.cell_fail[how.place] += 4.0 * how.level[:, None]


def _eye(how: _Stretch) -> None:
    dirty = how.level >= DIRTY_POINTS
    if how.of.asset.startswith("CH"):
        how.to.chute_shut[how.at(how.index())] |= dirty
    else:
        how.to.eye_dirty[how.at(how.index())] |= dirty


def _lens(how: _Stretch) -> None:
    how.to.no_read[how.at(how.index())] += how.level


def _labels(how: _Stretch) -> None:
    how.to.no_read[how.place] += how.level[:, None]


def _gap(how: _Stretch) -> None:
    how.to.gap[how.place] += how.level
    how.to.no_read[how.place] += 0.8 * how.level[:, None]


def _unrouted(how: _Stretch) -> None:
    how.to.unrouted[how.place] += how.level


def _divert(how: _Stretch) -> None:
    how.to.divert[how.at(how.index())] += how.level


def _cups(how: _Stretch) -> None:
    at = how.at(how.index())
    how.to.leak[at] += how.level
    how.to.cell_fail[at] += 0.42 * how.level
    how.to.cell_rate[at] *= 1 - 0.009 * how.level


def _filter(how: _Stretch) -> None:
    at = how.at(how.index())
    how.to.freeflow[at] += how.level
    how.to.cell_fail[at] += 0.11 * how.level
    how.to.cell_rate[at] *= 1 - 0.0015 * how.level


def _vision(how: _Stretch) -> None:
    at = how.at(how.index())
    how.to.no_grasp[at] += how.level
    how.to.cell_fail[at] += 0.9 * how.level
    how.to.cell_rate[at] *= 1 - 0.012 * how.level


def _mix(how: _Stretch) -> None:
    how.to.mix[how.place] += how.level
    how.to.cell_fail[how.place] += 0.36 * how.level[:, None]
    how.to.cell_rate[how.place] *= 1 - 0.006 * how.level[:, None]
    how.to.no_read[how.place] += 0.07 * how.level[:, None]


def _supply(how: _Stretch) -> None:
    how.to.supply[how.at(how.index())] *= 1 - how.level


def _no_supply(how: _Stretch) -> None:
    _supply(how)
    how.to.borrowed[how.at(how.index())] += 0.35 * how.level


def _door(how: _Stretch) -> None:
    how.to.door[how.at(how.index())] = True


def _labor(how: _Stretch) -> None:
    how.to.labor[how.at(OUTBOUND.index(area_of(how.of)))] *= 1 - how.level


def _volume(how: _Stretch) -> None:
    how.to.pack[how.place] *= 1 + how.level


def _upstream(how: _Stretch) -> None:
    how.to.pack[how.place] *= 1 - how.level


def _carriers(how: _Stretch) -> None:
    how.to.carriers[how.place] += how.level / 100


def _slip(how: _Stretch) -> None:
    how.to.slip[how.place] += how.level
    how.to.divert[how.place] += 0.35 * how.level[:, None]


def _jam(how: _Stretch) -> None:
    number = how.of.asset.partition("-")[2]
    how.to.jam[how.at(int(number[0]) - 1)] = int(number[1])


def _plan_error(how: _Stretch) -> None:
    # what another chute should have got comes here
    how.to.surge[how.at(how.index())] *= how.level
    how.to.surge[how.at((how.index() + 17) % LAYOUT["chutes"])] /= how.level


def _aborted(how: _Stretch) -> None:
    how.to.aborted[how.place] += how.level


def _silent(how: _Stretch) -> None:
    how.to.silent[how.at(gap_group(how.of))] = True


def _warehouse(how: _Stretch) -> None:
    how.to.warehouse_silent[how.place] = True


def _dense(how: _Stretch) -> None:
    how.to.eye_dense[how.at(how.index())] = True


def _surge(how: _Stretch) -> None:
    how.to.surge[how.at(how.index())] *= how.level


def _cell_noise(how: _Stretch) -> None:
    how.to.cell_fail[how.at(how.index())] += how.level


def _service(how: _Stretch) -> None:
    how.to.cell_service[how.at(how.index())] = True


def _nothing(how: _Stretch) -> None:
    """Told by the calendar, or by the departures."""


_DO: Mapping[str, Callable[[_Stretch], None]] = {
    "safety_stop": _stop,
    "drive_fault": _stop,
    "drive_overload": _overload,
    "air_pressure_low": _air,
    "photo_eye_dirty": _eye,
    "scan_lens_dirty": _lens,
    "label_print_poor": _labels,
    "gap_loss": _gap,
    "no_destination": _unrouted,
    "divert_worn": _divert,
    "cup_worn": _cups,
    "vacuum_filter_clogged": _filter,
    "vision_degraded": _vision,
    "item_mix_hard": _mix,
    "container_short": _no_supply,
    "trailer_absent": _nothing,
    "door_fault": _door,
    "labor_short": _labor,
    "volume_over_plan": _volume,
    "upstream_stop": _upstream,
    "carriers_out": _carriers,
    "tracking_slip": _slip,
    "jam": _jam,
    "sort_plan_error": _plan_error,
    "chute_abort_limit": _aborted,
    "telemetry_gap": _silent,
    "not_break": _nothing,
    "not_warehouse_gap": _warehouse,
    "not_dense_flow": _dense,
    "not_heavy_volume": _volume,
    "not_bad_labels": _labels,
    "not_chute_surge": _surge,
    "not_cell_noise": _cell_noise,
    "not_cell_service": _service,
    "not_lean_empties": _supply,
}
