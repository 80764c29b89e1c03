"""What the controllers' answers are made from, apart from chance: small enough for a JSON file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bench.world.layout import SITES
from bench.world.minutes import Episode, Minutes

FAULTS = ("safety_stop", "drive_fault", "door_fault", "carriers_out", "photo_eye_dirty")


class Trailer(NamedTuple):
    """A departure at the dock; `docked` is -1 when it never was. Seconds since the epoch."""

    lane: int
    door: int
    docked: int
    cpt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EquipmentFacts:
    """Of one site; `episodes` of FAULTS only, `trailers` ascending by cpt."""

    seed: int
    site: int
    start: int
    end: int
    episodes: tuple[Episode, ...]
    trailers: tuple[Trailer, ...]


def facts_of(minutes: Minutes, seed: int, site: int) -> EquipmentFacts:
    of = minutes.departures
    here = np.flatnonzero(of["site"] == site)
    return EquipmentFacts(
        seed=seed,
        site=site,
        start=minutes.start,
        end=minutes.start + 60 * minutes.minutes,
        episodes=tuple(one for one in minutes.episodes if one.site == site and one.fault in FAULTS),
        trailers=tuple(
            Trailer(*row)
            for row in zip(
                *(of[column][here].tolist() for column in ("lane", "door", "docked", "cpt")),
                strict=True,
            )
        ),
    )


def write_equipment(path: Path, minutes: Minutes, seed: int) -> None:
    """Everything that `read_equipment` needs, in the place of what was there."""
    sites = [facts_of(minutes, seed, site) for site in range(minutes.sites)]
    document = {SITES[facts.site].facts.name: asdict(facts) for facts in sites}
    writing = path.with_name(f"{path.name}.writing")
    writing.write_text(json.dumps(document, separators=(",", ":")))
    writing.replace(path)


def read_equipment(path: Path) -> Mapping[str, EquipmentFacts]:
    """By the site's name. Raises OSError, and ValueError for a file of another kind."""
    document = json.loads(path.read_text())
    try:
        return {
            name: EquipmentFacts(
                **(
                    facts
                    | {
                        "episodes": tuple(Episode(**one) for one in facts["episodes"]),
                        "trailers": tuple(Trailer(*one) for one in facts["trailers"]),
                    }
                )
            )
            for name, facts in document.items()
        }
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"{path} holds no equipment: write it with write_equipment") from error
