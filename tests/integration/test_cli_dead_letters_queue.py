"""`triage dead-letters redrive` where the queue is a server of its own."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

import pytest

from bench.redis_server import RedisServer
from tests.command_line import TOML, make_project
from tests.integration.test_cli_dead_letters import dead_letters, lay, ledger
from tests.servers import free_port
from triage.app.deliveries import make_queue
from triage.app.delivery_sections import QueueSection
from triage.clock import SystemClock


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = make_project(tmp_path / "project")
    (folder / "triage.toml").write_text('[queue]\nurl_env = "QUEUE_URL"\n' + TOML)
    return folder


def embedded(folder: Path) -> int:
    """Rows of the queue that nobody here would receive from."""
    database = sqlite3.connect(folder / "data" / "triage.db")
    (rows,) = database.execute("SELECT count(*) FROM queue").fetchone()
    database.execute("DELETE FROM queue")
    database.commit()
    database.close()
    return int(rows)


async def test_it_is_published_there_and_not_in_the_store(project: Path, tmp_path: Path) -> None:
    (alert_id,) = await asyncio.to_thread(lay, project, alerts=1)
    embedded(project)
    with RedisServer(tmp_path / "redis") as redis:
        ended = dead_letters(project, "redrive", alert_id, env={"QUEUE_URL": redis.url})
        assert (ended.code, ended.out) == (0, f"{alert_id}: pending again: {alert_id}\n")
        queue = make_queue(QueueSection(url=redis.url), lease_s=30, clock=SystemClock())
        assert queue is not None
        try:
            (delivery,) = await queue.receive(limit=9, wait_s=0)
            assert delivery.alert_id == alert_id
        finally:
            await queue.close()
    assert embedded(project) == 0


def test_a_server_that_is_away_delays_and_loses_nothing(project: Path) -> None:
    (alert_id,) = lay(project, alerts=1)
    env = {"QUEUE_URL": f"redis://u:s3cret@127.0.0.1:{free_port()}/0"}
    ended = dead_letters(project, "redrive", alert_id, env=env)
    assert ended.code == 0
    assert f"{alert_id}: pending again: {alert_id} (the sweeper will publish it: " in ended.out
    assert "s3cret" not in ended.out + ended.err
    assert ledger(project)["pending"] == 1


def test_looking_takes_no_queue_and_no_secret_of_one(project: Path) -> None:
    (alert_id,) = lay(project, alerts=1)
    assert dead_letters(project, "show", alert_id).code == 0
    missing = dead_letters(project, "redrive", alert_id)
    assert missing.code == 78
    assert "queue.url_env: the environment variable QUEUE_URL is not set" in missing.err
    assert ledger(project)["dead_lettered"] == 1
