"""The dock's alerts decided on real servers as they are on the embedded sources."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.real_servers.comparison import measure
from bench.world.world import OPEN_SEED, WHOLE, Extent
from tests.servers import needing_servers

DAYS = 31  # four weeks of usual days, and three of alerts
ALERTS = 15
EXTENT = Extent(start=WHOLE.end - DAYS * 86_400, days=DAYS, sites=1)


@pytest.mark.timeout(600)
def test_real_servers_make_the_same_decisions(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    with needing_servers():
        figures = measure(
            OPEN_SEED,
            EXTENT,
            tmp_path,
            alerts=ALERTS,
            progress=lambda done, of: seen.append((done, of)),
        )
    assert figures["differences"] == []
    assert figures["real_decisions_sha256"] == figures["embedded_decisions_sha256"]
    assert figures["real_identical"] == figures["real_alerts"] == ALERTS
    assert figures["real_degraded"] == figures["embedded_degraded"] == 0
    # Not for want of anything to disagree on.
    assert all(figures["queries"][source] > 0 for source in ("metrics", "warehouse", "equipment"))
    assert figures["answers_identical"] == figures["answers_compared"] > ALERTS
    assert figures["samples_held"] == figures["samples_backfilled"] > figures["samples_in_windows"]
    assert seen[-1] == (2 * ALERTS, 2 * ALERTS)
