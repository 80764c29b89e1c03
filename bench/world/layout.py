"""The five sites: what stands there, and how each spells and measures it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from bench.world.canonical import SiteFacts

EPOCH = 1788220800  # 2026-09-01T00:00:00Z, a Tuesday
DAYS = 90

LAYOUT: Mapping[str, int] = {
    "infeeds": 4,
    "eyes_per_infeed": 5,
    "cells": 6,
    "stations": 4,
    "tunnels": 2,
    "chutes": 60,
    "lanes": 12,
    "zones": 4,
    "doors": 24,
    "printers": 8,
    "chutes_per_lane": 5,
    "lanes_per_zone": 3,
    "doors_per_lane": 2,
}
WIDTH: Mapping[str, int] = {"CH": 3, "STG": 2, "DD": 2, "RC": 2, "PR": 2}
WORDS: Mapping[str, str] = {
    "CHUTE": "CH",
    "CELL": "RC",
    "ROBOT": "RC",
    "EYE": "PE",
    "INFEED": "INF",
    "LANE": "STG",
    "STAGING": "STG",
    "DOOR": "DD",
    "TUNNEL": "ST",
    "DRIVE": "DRV",
    "SORTER": "LS",
    "LOOP": "LS",
    "ZONE": "ZN",
    "PRINTER": "PR",
}
OUTBOUND_AREAS = ("induct", "sort", "stage", "load")
DONOR_AREAS = ("pick", "pack", "receive")
SPARE_PARTS: Mapping[str, str] = {"RC": "GRIPPER-KIT"}


def name(prefix: str, number: int) -> str:
    """The normalised id, such as CH-007."""
    return f"{prefix}-{number:0{WIDTH.get(prefix, 1)}d}"


def _assets() -> dict[str, tuple[str, ...]]:
    eyes = [
        name("PE", 10 * infeed + eye)
        for infeed in range(1, LAYOUT["infeeds"] + 1)
        for eye in range(1, LAYOUT["eyes_per_infeed"] + 1)
    ]
    drives = [*range(LAYOUT["infeeds"] + 1), *range(10, 10 + LAYOUT["cells"])]
    counted = {
        "INF": LAYOUT["infeeds"],
        "MS": LAYOUT["stations"],
        "ST": LAYOUT["tunnels"],
        "CH": LAYOUT["chutes"],
        "STG": LAYOUT["lanes"],
        "DD": LAYOUT["doors"],
        "ZN": LAYOUT["zones"],
        "PR": LAYOUT["printers"],
        "SG": 1,
        "LS": 1,
        "AIR": 1,
    }
    return {
        **{
            prefix: tuple(name(prefix, number) for number in range(1, count + 1))
            for prefix, count in counted.items()
        },
        "RC": tuple(name("RC", number) for number in range(LAYOUT["cells"])),
        "PE": tuple(eyes),
        "DRV": tuple(name("DRV", number) for number in drives),
    }


ASSETS: Mapping[str, tuple[str, ...]] = _assets()
"""Prefix to ids in the order of their numbers, which is the order of every array."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteStyle:
    """How a site differs: `units` by metric, `spelling` of ids in its metrics and alerts."""

    facts: SiteFacts
    units: Mapping[str, str]
    spelling: str
    volume: float
    """Of the model site's parcels."""


def _site(
    site: str, zone: str, spelling: str, volume: float, units: Mapping[str, str]
) -> SiteStyle:
    facts = SiteFacts(
        name=site,
        zone=zone,
        layout=LAYOUT,
        outbound_areas=OUTBOUND_AREAS,
        donor_areas=DONOR_AREAS,
        spare_parts=SPARE_PARTS,
    )
    return SiteStyle(facts=facts, units=units, spelling=spelling, volume=volume)


SITES: tuple[SiteStyle, ...] = (
    _site("FC1", "America/New_York", "plain", 1.0, {}),
    _site(
        "FC2",
        "Europe/Berlin",
        "plain",
        0.9,
        {"cell_state_seconds": "ms", "recirc_pct": "fraction", "cell_no_grasp": "fraction"},
    ),
    _site("FC3", "Australia/Sydney", "short", 0.8, {"infeed_occupancy": "fraction"}),
    _site(
        "FC4",
        "America/Chicago",
        "plain",
        1.05,
        {
            "sorter_speed": "ft/min",
            "sorter_setpoint": "ft/min",
            "encoder_speed": "ft/min",
            "air_pressure": "psi",
            "drive_temp": "fahrenheit",
        },
    ),
    _site(
        "FC5",
        "Asia/Kolkata",
        "words",
        0.85,
        {"recirc_pct": "fraction", "cell_no_grasp": "fraction"},
    ),
)

_WORD_OF = {"CH": "Chute", "RC": "Cell", "PE": "Eye", "INF": "Infeed", "STG": "Lane", "DD": "Door"}
_ID = re.compile(r"([A-Z]+)-(\d+)")


def spell(asset: str, spelling: str) -> str:
    """How a site writes a normalised id: `plain` CH-007, `short` ch7, `words` Chute 7.

    Raises ValueError for what is no normalised id.
    """
    found = _ID.fullmatch(asset)
    if found is None:
        raise ValueError(f"{asset!r} is not a normalised id")
    prefix, number = found[1], int(found[2])
    match spelling:
        case "short":
            return f"{prefix.lower()}{number}"
        case "words":
            return f"{_WORD_OF[prefix]} {number}" if prefix in _WORD_OF else asset
        case _:
            return asset
