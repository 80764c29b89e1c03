"""What the tests of the Prometheus source share."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import orjson

from tests.contract.metrics_cases import at
from triage.adapters.prometheus import PrometheusSource
from triage.model.query import Samples

TIMEOUT_S = 30.0
LEVEL = Samples("metrics", 'level{host="a"}', at(0), at(60))


@asynccontextmanager
async def opened(
    url: str, *, max_bytes: int = 1_048_576, max_connections: int = 4, token: str = ""
) -> AsyncIterator[PrometheusSource]:
    source = PrometheusSource(
        "metrics", url, max_bytes=max_bytes, max_connections=max_connections, token=token
    )
    await source.open()
    try:
        yield source
    finally:
        await source.close()


def success(result: list[object], kind: str = "matrix", **more: object) -> bytes:
    return orjson.dumps(
        {"status": "success", "data": {"resultType": kind, "result": result}, **more}
    )


SERIES = {"metric": {"__name__": "level"}, "values": [[1_767_614_430, "1.5"]]}
