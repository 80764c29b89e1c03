"""The source contract, held to the shipped fake, the recording and a real Prometheus."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.contract.metrics_cases import METRICS_CASES, SOURCE, STORED, in_memory
from tests.contract.source_contract import (
    LiveMetricsContract,
    MetricsContract,
    Rig,
    ServerContract,
    ServerRig,
)
from tests.servers import Prometheus
from triage.adapters.memory import MemorySeries, MemorySource
from triage.adapters.prometheus import PrometheusSource
from triage.adapters.recorded import RecordedSource
from triage.model.query import Answer, Query, Rows, encode_answer, query_digest

CASES = {case.about: case for case in METRICS_CASES}
FILLED = CASES["series in the order of their labels"]
EMPTY = CASES["an unknown metric"]
STRANGE = Rows(SOURCE, "select 1")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    server = Prometheus(tmp_path_factory.mktemp("prometheus"))
    server.backfill(STORED)
    with server:
        yield server


class TestMemorySource(LiveMetricsContract):
    @pytest.fixture
    def rig(self) -> Rig:
        def make() -> MemorySource:
            return MemorySource(SOURCE, MemorySeries(in_memory()))

        return Rig(
            source=make(),
            filled=FILLED.query,
            answer=FILLED.answer,
            empty=EMPTY.query,
            strange=STRANGE,
            make=make,
        )


class TestMemorySourceOfAMapping(MetricsContract):
    @pytest.fixture
    def rig(self) -> Rig:
        answers: dict[Query, Answer] = {case.query: case.answer for case in METRICS_CASES}

        def make() -> MemorySource:
            return MemorySource(SOURCE, answers)

        return Rig(
            source=make(),
            filled=FILLED.query,
            answer=FILLED.answer,
            empty=EMPTY.query,
            make=make,
        )


class TestRecordedSource(MetricsContract):
    @pytest.fixture
    def rig(self) -> Rig:
        bodies = {query_digest(case.query): encode_answer(case.answer) for case in METRICS_CASES}

        def make() -> RecordedSource:
            return RecordedSource(SOURCE, bodies)

        return Rig(
            source=make(),
            filled=FILLED.query,
            answer=FILLED.answer,
            empty=EMPTY.query,
            make=make,
        )


@pytest.mark.both_loops
class TestPrometheusSource(LiveMetricsContract, ServerContract):
    @pytest.fixture
    async def rig(self, server: Prometheus) -> AsyncIterator[Rig]:
        rig = _rig(server)
        await rig.source.open()
        yield rig
        await rig.source.close()

    @pytest.fixture
    async def server_rig(self, tmp_path: Path) -> AsyncIterator[ServerRig]:
        server = Prometheus(tmp_path)
        server.backfill(STORED)
        with server:
            rig = _rig(server)
            await rig.source.open()
            yield rig
            await rig.source.close()


def _rig(server: Prometheus) -> ServerRig:
    def make() -> PrometheusSource:
        return PrometheusSource(SOURCE, server.url, max_connections=4)

    return ServerRig(
        source=make(),
        filled=FILLED.query,
        answer=FILLED.answer,
        empty=EMPTY.query,
        strange=STRANGE,
        make=make,
        kill=server.kill,
        start=server.start,
    )
