"""A short run of chaos on replicas that share a database and a broker."""

from __future__ import annotations

import pytest

from bench.chaos.options import options
from bench.chaos.plan import Kind
from bench.chaos.run import measure_chaos
from tests.integration.chaos_world import proven

pytestmark = pytest.mark.timeout(600)


@pytest.mark.parametrize("queue", ["redis", "nats"])
def test_replicas_share_the_work(queue: str) -> None:
    wanted = options(seconds=15, queue=queue, alerts=300, replicas=2, seed=12, every_s=2.5)
    figures, _ = measure_chaos(wanted)
    proven(figures, wanted)
    assert figures["restarts"] > 0
    assert {Kind.KILL, Kind.STOP, Kind.STORE} <= {Kind(did["kind"]) for did in figures["plan"]}
