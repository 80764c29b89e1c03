"""The dock's MCP server through the MCP adapter answers what the source without a process does."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bench.world.equipment_answers import CALLS, ServedEquipment
from bench.world.equipment_facts import read_equipment, write_equipment
from bench.world.equipment_source import WorldEquipment
from bench.world.layout import ASSETS, EPOCH
from tests.unit.bench_world.floor_minutes import SEED, floor_minutes
from triage.adapters.mcp import McpSource
from triage.errors import ToolFailed, ToolFailure
from triage.model.query import Call
from triage.tool_api import call

LONG_S = 60.0  # for what must succeed: no assertion depends on how soon
MODULE = "bench.world.equipment_server"
SITES = ("FC1", "FC2")
OF_CALL = {
    "carriers": ("LS-1",),
    "doors": (*ASSETS["DD"], *ASSETS["STG"], "LS-1"),
    "eye_margin": (*ASSETS["PE"], *ASSETS["INF"], *ASSETS["CH"], "LS-1"),
}
EVERY = tuple(asset for assets in ASSETS.values() for asset in assets)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("equipment") / "equipment.json"
    write_equipment(path, floor_minutes(sites=len(SITES)), SEED)
    return path


@pytest.fixture(scope="module")
def port(file: Path) -> Iterator[int]:
    process = subprocess.Popen(  # noqa: S603 - our own program
        [sys.executable, "-m", MODULE, "http", str(file), "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdout is not None
    try:
        # It prints when it listens; a server that cannot start ends its output instead.
        yield int(process.stdout.readline())
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.fixture(params=["stdio", "http"])
async def server(request: pytest.FixtureRequest, file: Path) -> AsyncIterator[McpSource]:
    if request.param == "stdio":
        source = McpSource(
            "equipment",
            command=sys.executable,
            args=("-m", MODULE, "stdio", str(file)),
            connect_timeout_s=LONG_S,
        )
    else:
        url = f"http://127.0.0.1:{request.getfixturevalue('port')}/mcp"
        source = McpSource("equipment", url=url, connect_timeout_s=LONG_S)
    await source.open()
    yield source
    await source.close()


def random_calls(count: int) -> Iterator[Call]:
    drawn = random.Random(3)
    start = EPOCH
    for _ in range(count):
        tool = drawn.choice(sorted(CALLS))
        at = datetime.fromtimestamp(drawn.randrange(start, start + 3 * 86_400), UTC)
        given = {"site": drawn.choice(SITES), "at": f"{at:%Y-%m-%dT%H:%M:%SZ}"}
        if tool != "routes":
            given["asset"] = drawn.choice(OF_CALL.get(tool, EVERY))
        yield call("equipment", tool, **given)


async def test_both_answer_the_same(server: McpSource, file: Path) -> None:
    world = WorldEquipment(ServedEquipment(read_equipment(file)))
    asked = set()
    for query in random_calls(80):
        told = await server.ask(query, timeout_s=LONG_S)
        assert told == await world.ask(query, timeout_s=LONG_S)
        assert list(told) == list(await world.ask(query, timeout_s=LONG_S))
        asked.add(query.tool)
    assert asked == set(CALLS)


REFUSED: tuple[dict[str, object], ...] = (
    {"site": "FC9", "asset": "LS-1", "at": "2026-09-01T07:45:00Z"},
    {"site": "FC1", "asset": "chute 7", "at": "2026-09-01T07:45:00Z"},
    {"site": "FC1", "asset": "LS-1", "at": "now"},
    {"site": "FC1", "asset": "LS-1"},
    {"site": "FC1", "asset": 7, "at": "2026-09-01T07:45:00Z"},
)


async def test_both_refuse_the_same(server: McpSource, file: Path) -> None:
    world = WorldEquipment(ServedEquipment(read_equipment(file)))
    for given in REFUSED:
        details = []
        for source in (server, world):
            with pytest.raises(ToolFailed) as caught:
                await source.ask(call("equipment", "fault_code", **given), timeout_s=LONG_S)
            assert caught.value.failure is ToolFailure.QUERY_REJECTED
            details.append(caught.value.detail)
        before, reported, said = details[1].partition("it reported an error: ")
        # What the server said is in both, whatever the protocol puts around it.
        assert not reported or (said and said in details[0]), before


def test_it_says_what_is_wrong_with_its_file(tmp_path: Path) -> None:
    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-m", MODULE, "stdio", str(tmp_path / "none.json")],
        capture_output=True,
        text=True,
        timeout=LONG_S,
        check=False,
    )
    assert done.returncode == 1
    assert "none.json" in done.stderr
    assert "Traceback" not in done.stderr
