"""Redis servers with passwords, with settings that lose data, as replicas and in a cluster."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bench.redis_server import RedisServer
from bench.servers import HOST, free_port, wait_until
from tests.contract.queue_redis import direct
from tests.integration.redis_world import (
    LEASE_S,
    Broken,
    at_last,
    broken,
    ids,
    named,
    warnings,
)
from triage.adapters.redis import RedisQueue, RedisStream
from triage.clock import SystemClock
from triage.errors import ConfigError, QueueError

SECRET = "hunter2/hunter2"  # noqa: S105 - a test's own
WRITTEN = "hunter2%2Fhunter2"


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[Broken]:
    async with broken(tmp_path) as opened:
        yield opened


@pytest.fixture
def safe(world: Broken) -> Broken:
    with world.direct as client:
        client.config_set("appendfsync", "always")
    return world


async def test_a_server_that_loses_nothing_has_no_weakness(safe: Broken) -> None:
    assert await safe.queue().weaknesses() == []


THEN = (
    "and then no alert is lost, the store has them all, but these wait until they are published"
    " again; set"
)


@pytest.mark.parametrize(
    ("settings", "fault", "remedy"),
    [
        pytest.param(
            {"appendfsync": "everysec"},
            "appendfsync is everysec: when its machine crashes or loses power (not when only Redis"
            " ends) it loses wake-ups of the last second or two,",
            "it to always",
            id="everysec",
        ),
        pytest.param(
            {"appendfsync": "no"},
            "appendfsync is no: when its machine crashes or loses power it loses wake-ups of about"
            " the last half minute,",
            "it to always",
            id="no",
        ),
        pytest.param(
            {"appendonly": "no", "appendfsync": "everysec"},
            "appendonly is no: whenever it ends it loses wake-ups since its last snapshot,",
            "appendonly to yes and appendfsync to always",
            id="no-file",
        ),
        pytest.param(
            {"maxmemory": "100000000", "maxmemory-policy": "allkeys-lru"},
            "maxmemory-policy is allkeys-lru: once it holds 100000000 bytes it deletes whole keys,"
            " wake-ups among them,",
            "it to noeviction",
            id="evicts",
        ),
    ],
)
async def test_how_a_server_could_lose_something_is_said(
    safe: Broken, settings: dict[str, str], fault: str, remedy: str
) -> None:
    with safe.direct as client:
        for name, value in settings.items():
            client.config_set(name, value)

    found = await safe.queue().weaknesses()

    assert found == [f"{safe.server_label}: {fault} {THEN} {remedy}"]


@pytest.mark.parametrize(
    "settings",
    [
        # Full, it refuses what is new; what the queue makes has no expiry; no limit, no eviction.
        {"maxmemory": "100000000", "maxmemory-policy": "noeviction"},
        {"maxmemory": "100000000", "maxmemory-policy": "volatile-lru"},
        {"maxmemory": "0", "maxmemory-policy": "allkeys-lru"},
    ],
)
async def test_what_drops_none_of_its_keys_is_no_weakness(
    safe: Broken, settings: dict[str, str]
) -> None:
    with safe.direct as client:
        for name, value in settings.items():
            client.config_set(name, value)

    assert await safe.queue().weaknesses() == []


async def test_what_a_producers_stream_could_lose_are_alerts(safe: Broken) -> None:
    with safe.direct as client:
        client.config_set("appendfsync", "everysec")
        client.config_set("maxmemory", "100000000")
        client.config_set("maxmemory-policy", "allkeys-random")
    stream = RedisStream(safe.server.url, stream="alerts", group="g", lease_s=LEASE_S)

    found = await stream.weaknesses()
    await stream.close()

    assert len(found) == 2
    for sentence in found:
        assert "messages" in sentence
        assert "alerts that triage had not received are lost" in sentence


async def test_a_server_that_is_not_to_be_looked_into_is_no_trouble(world: Broken) -> None:
    with world.direct as client:
        client.acl_setuser(
            "app", enabled=True, nopass=True, categories=["+@all"], commands=["-config"], keys=["*"]
        )
    queue = world.queue(url=f"redis://app:x@{HOST}:{world.server.port}")

    [sentence] = await queue.weaknesses()

    assert "could not be looked at (CONFIG GET is refused)" in sentence
    assert "appendonly yes, appendfsync always and maxmemory-policy noeviction" in sentence
    assert queue.trouble == ""
    await queue.publish(warnings(ids(1)))


async def test_a_server_that_does_not_answer_has_no_known_weaknesses(world: Broken) -> None:
    queue = world.queue()
    world.server.kill()

    with pytest.raises(QueueError):
        await queue.weaknesses()


async def test_a_password_works_and_is_shown_nowhere(tmp_path: Path) -> None:
    async with broken(tmp_path, ("--requirepass", SECRET)) as world:
        queue = world.queue(url=f"redis://:{WRITTEN}@{HOST}:{world.server.port}/3")
        alerts = ids(1)
        await queue.publish(warnings(alerts))
        assert named(await queue.receive(limit=1, wait_s=0)) == alerts
        assert queue.label == f"redis://{HOST}:{world.server.port}/3"

        world.server.kill()
        with pytest.raises(QueueError) as lost:
            await queue.depth()

        for text in (queue.label, queue.trouble, repr(queue), str(lost.value)):
            assert "hunter2" not in text


@pytest.mark.parametrize("login", [f":{WRITTEN}@", "hunter2hunter2@", "me:hunter2hunter2@", ""])
async def test_a_wrong_password_is_trouble_and_is_shown_nowhere(tmp_path: Path, login: str) -> None:
    async with broken(tmp_path, ("--requirepass", "another")) as world:
        queue = world.queue(url=f"redis://{login}{HOST}:{world.server.port}")

        with pytest.raises(QueueError) as refused:
            await queue.publish(warnings(ids(1)))

        assert "hunter2" not in str(refused.value) + queue.label + queue.trouble
        assert queue.trouble == str(refused.value)
        assert "uthentication" in queue.trouble or "password" in queue.trouble


@pytest.mark.parametrize(
    "url",
    [
        "redis://:hunter2#hunter2@host:6379",
        "redis://:hunter2?hunter2=x@host:6379",
        "redis://host:hunter2",
        "redis://host/0?hunter2=1",
        "redis://host?db=hunter2",
        "rediss://host/0?ssl_cert_reqs=hunter2",
        "http://:hunter2@host",
    ],
)
def test_a_url_that_cannot_be_used_is_refused_without_being_quoted(url: str) -> None:
    with pytest.raises(ConfigError) as refused:
        RedisQueue(url, name="q", lease_s=LEASE_S, clock=SystemClock())

    assert "hunter2" not in str(refused.value)
    assert "redis://[user:password@]host[:port][/database]" in str(refused.value)
    assert "%23" in str(refused.value)


@pytest.mark.parametrize(
    ("url", "label"),
    [
        ("redis://host", "redis://host:6379/0"),
        ("rediss://me:hunter2@host:7000/2", "rediss://host:7000/2"),
        ("redis://:hunter2@[::1]:7000", "redis://[::1]:7000/0"),
        ("unix://me:hunter2@/run/redis.sock?db=4", "unix:///run/redis.sock?db=4"),
    ],
)
def test_a_label_says_where_it_is(url: str, label: str) -> None:
    queue = RedisQueue(url, name="q", lease_s=LEASE_S, clock=SystemClock())
    stream = RedisStream(url, stream="alerts", group="g", lease_s=LEASE_S)

    assert queue.label == label
    assert stream.label == f"{label} stream alerts"
    assert stream.name == "alerts"


def test_without_the_package_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "redis.asyncio", None)

    with pytest.raises(ConfigError, match=r"pip install 'triage\[redis\]'"):
        RedisQueue("redis://host", name="q", lease_s=LEASE_S, clock=SystemClock())


async def test_nobody_there_is_an_error_that_says_where(tmp_path: Path) -> None:
    port = free_port()
    queue = RedisQueue(f"redis://{HOST}:{port}", name="q", lease_s=LEASE_S, clock=SystemClock())

    with pytest.raises(QueueError, match=f"redis://{HOST}:{port}/0: .*Connect call failed"):
        await queue.receive(limit=1, wait_s=0)

    await queue.close()


async def test_a_socket_of_a_file_serves_as_well(tmp_path: Path) -> None:
    path = tmp_path / "s"
    async with broken(tmp_path / "server", ("--unixsocket", str(path))) as world:
        queue = world.queue(url=f"unix://{path}?db=1")
        alerts = ids(1)

        await queue.publish(warnings(alerts))

        assert named(await queue.receive(limit=1, wait_s=0)) == alerts


async def test_a_replica_is_refused_with_what_to_do(world: Broken, tmp_path: Path) -> None:
    with RedisServer(tmp_path / "replica") as replica:
        client = direct(replica)
        try:
            client.replicaof(HOST, world.server.port)
            queue = world.queue(url=replica.url)

            with pytest.raises(QueueError, match="give the URL of the primary"):
                await queue.publish(warnings(ids(1)))

            # As after a fail-over: what answers there is the primary now.
            client.replicaof("NO", "ONE")
            await at_last(lambda: queue.publish(warnings(ids(1))))
        finally:
            client.close()


async def test_in_a_cluster_it_goes_to_the_node_that_has_its_keys(tmp_path: Path) -> None:
    clustered = ("--cluster-enabled", "yes", "--cluster-port")
    async with (
        broken(tmp_path / "a", (*clustered, str(free_port()))) as asked,
        broken(tmp_path / "b", (*clustered, str(free_port()))) as holder,
    ):
        with asked.direct as one, holder.direct as two:
            two.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
            bus = two.config_get("cluster-port")["cluster-port"]
            one.execute_command("CLUSTER", "MEET", HOST, holder.server.port, bus)
            await asyncio.to_thread(
                wait_until,
                lambda: {node.cluster("INFO")["cluster_state"] for node in (one, two)} == {"ok"},
                what="the cluster",
            )
        queue = asked.queue()
        alerts = ids(3)

        await queue.publish(warnings(alerts))
        held = await queue.receive(limit=3, wait_s=0)
        await queue.settle(acked=held[:1], returned=held[1:2])
        await queue.settle(returned=held[2:], delay_s=LEASE_S)

        assert named(held) == alerts
        assert (await queue.depth())["warning"] == 2
        assert named(await queue.receive(limit=3, wait_s=60)) == alerts[1:2]
        assert queue.forgot()
        with holder.direct as two:
            assert two.dbsize() > 0
