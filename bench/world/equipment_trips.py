"""When drives and robots tripped, on which code, and who reset them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from bench.world.chance import below, stream, uniform
from bench.world.equipment_facts import EquipmentFacts
from bench.world.layout import ASSETS

# code, whether it protects people or the drive, weight
CODES = (
    (7, False, 0.24),  # over-voltage
    (2, False, 0.22),  # over-current
    (41, False, 0.18),  # encoder
    (81, False, 0.10),  # bus
    (16, True, 0.14),  # motor too hot
    (30, True, 0.08),  # earth fault
    (52, True, 0.04),  # safe torque off, one channel
)
RESETS = (0.18, 0.24, 0.16, 0.26, 0.16)  # chances of none, one, two, … while it lasts
FORERUNNERS = 0.3  # of the faults trip once or twice in the hour before
BLOCK_S = 12 * 86_400  # in which a drive trips once for no lasting reason, or not at all
BLOCK_TRIPS = 0.7
SERIES = 0.3  # of those trip again, and are reset each time


class Trip(NamedTuple):
    """On `code` from `latched` to before `cleared`; `resets` ascend, and each one latched again
    at once but for one that cleared it. Seconds since the epoch."""

    latched: int
    cleared: int
    code: int
    protective: bool
    resets: tuple[int, ...]


def trips(facts: EquipmentFacts) -> Mapping[str, tuple[Trip, ...]]:
    """By drive, ascending by when they latched."""
    found: dict[str, list[Trip]] = {drive: [] for drive in ASSETS["DRV"]}
    for episode in facts.episodes:
        if episode.fault == "drive_fault" and episode.asset in found:
            key = stream(facts.seed, facts.site, "trip", episode.episode)
            found[episode.asset] += _of_fault(key, episode.start, episode.end)
    return {
        drive: tuple(sorted((*of_faults, *_passing(facts, drive))))
        for drive, of_faults in found.items()
    }


def _of_fault(key: int, start: int, end: int) -> Iterator[Trip]:
    code, protective = _code(key)
    resets: list[int] = []
    at = start
    if not protective:
        if uniform(key, 1) < FORERUNNERS:
            before = start - 1500 - below(1500, key, 2)
            yield _short(key, 3, before, code)
            if uniform(key, 4) < 0.5:
                yield _short(key, 5, before + 700, code)
        drawn, wanted = uniform(key, 6), 0
        while wanted < len(RESETS) - 1 and drawn >= RESETS[wanted]:
            drawn -= RESETS[wanted]
            wanted += 1
        for number in range(wanted):
            at += 35 + below(70, key, 10 + number)
            if at < end - 30:
                resets.append(at)
    yield Trip(start, end, code, protective, tuple(resets))


def _passing(facts: EquipmentFacts, drive: str) -> Iterator[Trip]:
    for block in range(facts.start // BLOCK_S, facts.end // BLOCK_S + 1):
        key = stream(facts.seed, facts.site, "passing trip", drive, block)
        if uniform(key) >= BLOCK_TRIPS:
            continue
        at = block * BLOCK_S + below(BLOCK_S - 7200, key, 1)
        # Nobody resets a protective code in a minute.
        code = CODES[below(4, key, 2)][0]
        again = 3 + below(2, key, 3) if uniform(key, 4) < SERIES else 1
        for number in range(again):
            yield _short(key, 20 + number, at, code)
            at += 300 + below(600, key, 30 + number)


def _short(key: int, counter: int, at: int, code: int) -> Trip:
    cleared = at + 30 + below(150, key, counter)
    return Trip(at, cleared, code, False, (cleared,))


def _code(key: int) -> tuple[int, bool]:
    drawn = uniform(key)
    for code, protective, weight in CODES:
        if drawn < weight:
            return code, protective
        drawn -= weight
    return CODES[0][:2]
