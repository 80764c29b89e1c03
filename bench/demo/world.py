"""The world that `triage.toml` serves: a few sites up to the day that `make demo` replays.

It lies in one folder: the minutes as the cache keeps them, `warehouse.db`, `equipment.json`, and
`world.json`, which says what it was made from and is written last.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from bench.watching import Say, silent
from bench.world.cache import digest_of, fingerprint, world_sources
from bench.world.equipment_facts import write_equipment
from bench.world.warehouse import fill_sqlite
from bench.world.world import WHOLE, Extent, World
from triage.errors import ConfigError

SEED = 20261138
"""Of the seeds after the open one, the one on whose last day many kinds of things go wrong."""
DAYS = 30
"""The day that is replayed, four weeks of usual days before it, and one to come from."""
SITES = 3
DAY_S = 86_400

WORLD, WAREHOUSE, EQUIPMENT = "world.json", "warehouse.db", "equipment.json"


def build_demo_world(
    folder: Path,
    *,
    days: int = DAYS,
    sites: int = SITES,
    seed: int = SEED,
    say: Say = silent,
) -> World:
    """Of the first `sites` sites, ending with 2026-11-29, UTC; at once when it lies there
    already. Some twenty seconds of a core otherwise, most of them for the minutes.

    With fewer than 29 days tools have no four weeks to compare the last one with, and leave such
    clauses out. Raises ValueError for no days and for more sites than there are, OSError when the
    folder cannot be written.
    """
    extent = Extent(start=WHOLE.end - days * DAY_S, days=days, sites=sites)
    wanted = {
        "seed": seed,
        "start": extent.start,
        "days": days,
        "sites": sites,
        "made_by": _made_by(),
    }
    if _told(folder) == wanted:
        return World.load(seed, folder, extent)
    (folder / WORLD).unlink(missing_ok=True)
    _clear(folder, keep=f"-{fingerprint()}")
    say(f"the floor of {sites} sites, minute by minute for {days} days")
    world = World.load(seed, folder, extent)
    say("the warehouse")
    day = (extent.end - DAY_S, extent.end)
    fill_sqlite(folder / WAREHOUSE, world.tables, range(sites), dict.fromkeys(range(sites), day))
    say("the controllers")
    write_equipment(folder / EQUIPMENT, world.minutes, seed)
    writing = folder / f"{WORLD}.writing"
    writing.write_text(json.dumps(wanted, indent=2) + "\n")
    writing.replace(folder / WORLD)
    return world


def built_world(folder: Path) -> World:
    """The world that lies there. Raises ConfigError when none does that this code made."""
    told = _told(folder)
    if told is None:
        raise ConfigError(f"no world lies in {folder}: build it with `make world`")
    if told["made_by"] != _made_by():
        raise ConfigError(
            f"the world in {folder} was made by another version: build it anew with `make world`"
        )
    extent = Extent(start=told["start"], days=told["days"], sites=told["sites"])
    return World.load(told["seed"], folder, extent)


def _told(folder: Path) -> dict[str, Any] | None:
    try:
        told: dict[str, Any] = json.loads((folder / WORLD).read_text())
    except (OSError, ValueError):
        return None
    return told


def _made_by() -> str:
    """Changes with any file that a world is made by; the minutes have a fingerprint of their own,
    so that a change to the warehouse alone does not build them again."""
    return digest_of(world_sources(), fingerprint())


def _clear(folder: Path, keep: str) -> None:
    """Minutes that no code will read again: they are a hundred megabytes."""
    for old in folder.glob("minutes-*"):
        if not old.name.endswith(keep):
            shutil.rmtree(old)
