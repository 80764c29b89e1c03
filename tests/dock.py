"""A small dock for tests: one site, three days, its tables and controllers."""

from __future__ import annotations

import os
from fcntl import LOCK_EX, flock

import pytest

from bench.dock import DockFiles, dock_files
from bench.world.world import WHOLE, Extent

DAY_S = 86_400
SEED = 5
EXTENT = Extent(start=WHOLE.end - 3 * DAY_S, days=3, sites=1)
LAST_DAY = (EXTENT.end - DAY_S, EXTENT.end)
"""When some ninety alarms of most kinds are raised. There are no four weeks before it, so tools
leave out what they compare with a usual day."""


def small_dock(factory: pytest.TempPathFactory) -> DockFiles:
    """Built once a run, by whoever comes first: a few seconds. All workers read the same files, so
    nobody may write to them."""
    own = factory.getbasetemp()
    # A worker's folder lies in the one of the whole run.
    folder = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "small-dock"
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        flock(lock, LOCK_EX)
        return dock_files(SEED, EXTENT, folder)
