"""The minutes of a world on disk: built once, then mapped into memory.

A world lies in a folder of its own, named for what made it: seed, start, days, sites and the source
text of the simulation. It is written beside its place and renamed, so another process sees all of
it or nothing.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.world.minutes import Episode, Minutes
from bench.world.simulate import ARRAYS, simulate

_SOURCES = (
    "calendar.py",
    "catalogue.py",
    "fault_kinds.py",
    "faults.py",
    "layout.py",
    "minutes.py",
    "simulate.py",
    "simulate_effects.py",
    "simulate_flow.py",
    "simulate_inputs.py",
    "simulate_plan.py",
    "simulate_sensors.py",
)


def fingerprint() -> str:
    """Of the source files that a world hangs on, and of numpy, whose generators it draws from."""
    return digest_of((Path(__file__).parent / source for source in _SOURCES), np.__version__)


def digest_of(files: Iterable[Path], beside: str = "") -> str:
    """Short, and another one when a file's name or bytes change, or what stands `beside` them."""
    digest = hashlib.sha256(beside.encode())
    for file in files:
        digest.update(file.name.encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def world_sources() -> list[Path]:
    """All that makes a world's files: the simulation, and the tables and controllers on it."""
    return sorted(Path(__file__).parent.glob("*.py"))


def load_minutes(seed: int, start: int, days: int, sites: int, folder: Path) -> Minutes:
    """The world's minutes, built when `folder` has none; the arrays are read-only maps of files.

    Raises ValueError as `simulate` does, OSError when the folder cannot be written.
    """
    place = folder / f"minutes-{seed}-{start}-{days}-{sites}-{fingerprint()}"
    if not place.is_dir():
        _write(simulate(seed, start, days, sites), place)
    return _read(place)


def _write(made: Minutes, place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    beside = Path(tempfile.mkdtemp(prefix=".minutes-", dir=place.parent))
    try:
        for name in ARRAYS:
            np.save(beside / f"{name}.npy", getattr(made, name))
        for name, column in made.departures.items():
            np.save(beside / f"departures-{name}.npy", column)
        told = {
            "start": made.start,
            "sites": made.sites,
            "minutes": made.minutes,
            "departures": list(made.departures),
            "episodes": [asdict(one) for one in made.episodes],
        }
        (beside / "world.json").write_text(json.dumps(told))
        beside.rename(place)
    except OSError:
        shutil.rmtree(beside)
        # another process may have been quicker: its world is as good
        if not place.is_dir():
            raise


def _map(path: Path) -> NDArray[Any]:
    mapped: NDArray[Any] = np.load(path, mmap_mode="r")
    return mapped


def _read(place: Path) -> Minutes:
    told = json.loads((place / "world.json").read_text())
    return Minutes(
        start=told["start"],
        sites=told["sites"],
        minutes=told["minutes"],
        departures={name: np.load(place / f"departures-{name}.npy") for name in told["departures"]},
        episodes=tuple(Episode(**one) for one in told["episodes"]),
        **{name: _map(place / f"{name}.npy") for name in ARRAYS},
    )
