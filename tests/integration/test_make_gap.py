"""`triage make --from-gap`: from what no tool could answer to a version that is made for it."""

from __future__ import annotations

import asyncio
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.command_line import ALERT, Daemon, serving, triage
from tests.integration.make_world import NODE, RIGHT, Maker, answering, project
from tests.servers import wait_until
from triage.library.manifest import read_manifest


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """Its one node has no tool, and a gap of one case says so."""
    folder = project(tmp_path_factory.mktemp("gap") / "project", "http://127.0.0.1:1")
    config = folder / "triage.toml"
    config.write_text(config.read_text().replace("[sop]", "[sop]\nallow_broken_tools = true"))
    with serving(folder) as daemon:
        body = orjson.dumps({**ALERT, "entity": "q5"})
        request = urllib.request.Request(f"{daemon.url}/api/v1/alerts", data=body)  # noqa: S310 - our own local URL
        with urllib.request.urlopen(request, timeout=10) as response:  # noqa: S310 - likewise
            assert response.status == 202
        wait_until(lambda: bool(gaps(folder)), what="a gap", process=daemon.process)
        yield daemon


def gaps(folder: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = triage("gaps", "list", "--json", cwd=folder).json["gaps"]
    return found


def test_a_gap_that_is_not_there(daemon: Daemon) -> None:
    ended = triage("make", "--from-gap", "0123456789ab", cwd=daemon.folder)
    assert ended.code == 1
    assert "0123456789ab" in ended.err


def test_a_node_that_the_gap_is_not_of(daemon: Daemon) -> None:
    (gap,) = gaps(daemon.folder)
    ended = triage("make", "obs_shallow", "--from-gap", gap["gap_id"], cwd=daemon.folder)
    assert ended.code == 2
    assert f"is one of {NODE}" in ended.err


async def test_the_version_says_which_gap_it_is_for(daemon: Daemon) -> None:
    (gap,) = gaps(daemon.folder)
    async with answering(Maker(RIGHT)) as server:
        config = daemon.folder / "triage.toml"
        config.write_text(config.read_text().replace("http://127.0.0.1:1", server.url))
        ended = await asyncio.to_thread(
            triage, "make", "--from-gap", gap["gap_id"][:8], "--no-traces", cwd=daemon.folder
        )
    assert ended.code == 0, ended.err
    entry = read_manifest(daemon.folder / "tools_lib", NODE)[0].version(1)
    assert entry is not None
    assert entry.gap == gap["gap_id"]
