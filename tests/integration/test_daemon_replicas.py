"""Several daemons on one database and one queue, while something is killed."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.daemon import Daemon, native, post
from tests.daemon_neighbours import Client, Receiver
from tests.integration.replica_world import BROKERS, QUEUES, Broker, broker, replicas
from tests.postgres import PostgresServer, running_postgres
from tests.scripted_server import ScriptedServer
from tests.servers import wait_until

NEVER_S = 600.0  # longer than any test: what happens then happened without it


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    with running_postgres() as server:
        yield server


@pytest.fixture(params=QUEUES)
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Broker | None]:
    with broker(request.param, tmp_path / "broker") as found:
        yield found


@pytest.fixture(params=BROKERS)
def own_server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Broker]:
    with broker(request.param, tmp_path / "broker") as found:
        assert found is not None
        yield found


def decided(*daemons: Daemon) -> list[str]:
    return [line["alert_id"] for daemon in daemons for line in daemon.logged("decided")]


def together(ledger: dict[str, Any]) -> tuple[int, int, int, bool]:
    return (
        ledger["accepted"],
        ledger["decided"],
        ledger["dead_lettered"],
        ledger["balances"],
    )


# --- two at once ----------------------------------------------------------------------------------


async def test_alerts_sent_to_either_are_decided_and_told_exactly_once(
    tmp_path: Path, postgres: PostgresServer, server: Broker | None
) -> None:
    hook = Receiver()
    async with (
        ScriptedServer(hook) as receiver,
        replicas(
            tmp_path, postgres, server, engine={"fast_slots": 2}, hook_url=receiver.url
        ) as world,
        world.serving("a", "b") as daemons,
    ):
        alerts = [native(str(n), "al_good", entity=f"unit-{n}") for n in range(60)]
        sent = await asyncio.gather(
            # Each fifth is sent to both at the same moment, as a retry through another address is.
            *(post(daemons[n % 2], alert) for n, alert in enumerate(alerts)),
            *(post(daemons[(n + 1) % 2], alert) for n, alert in enumerate(alerts) if n % 5 == 0),
        )
        ids = {alert_id for answer in sent for alert_id in answer}
        ledger = await daemons[0].settled()
        assert together(ledger) == (60, 60, 0, True)
        assert sorted(decided(*daemons)) == sorted(ids)
        assert len(hook.bodies) == 60
        assert all(len(set(bodies)) == 1 for bodies in hook.bodies.values())
        for daemon in daemons:
            assert (await daemon.ask("/-/ready"))["ready"] is True
            assert await daemon.terminated() == 0
        assert world.rows("SELECT count(*) FROM decisions") == [(60,)]


async def test_a_storm_is_shared(
    tmp_path: Path, postgres: PostgresServer, server: Broker | None
) -> None:
    """Whichever replica the alerts were sent to."""
    async with (
        replicas(tmp_path, postgres, server, engine={"fast_slots": 1}) as world,
        world.serving("a", "b") as (first, second),
    ):
        await post(first, *(native(str(n), "al_good", entity=f"unit-{n}") for n in range(200)))
        ledger = await first.settled()
        assert together(ledger) == (200, 200, 0, True)
        assert decided(first)
        assert decided(second)


# --- a replica that dies --------------------------------------------------------------------------


async def test_what_a_killed_replica_had_in_hand_is_decided_by_the_other(
    tmp_path: Path, postgres: PostgresServer, server: Broker | None
) -> None:
    engine = {"lease_s": 2, "sweep_s": NEVER_S}
    async with (
        replicas(tmp_path, postgres, server, engine=engine) as world,
        world.serving("a") as (first,),
    ):
        (alert_id,) = await post(first, native("held", "al_slow"))
        await world.script.held.wait()
        async with world.serving("b") as (second,):
            first.kill()
            world.script.release()
            decision = await second.decision(alert_id)
            assert (decision["outcome"], decision["attempt"]) == ("actions", 2)
            assert together(await second.settled()) == (1, 1, 0, True)


async def test_a_lease_is_kept_for_as_long_as_the_work_takes(
    tmp_path: Path, postgres: PostgresServer, server: Broker | None
) -> None:
    engine = {"lease_s": 1, "sweep_s": 0.3}
    async with (
        replicas(tmp_path, postgres, server, engine=engine) as world,
        world.serving("a") as (first,),
    ):
        (alert_id,) = await post(first, native("held", "al_slow"))
        await world.script.held.wait()
        async with world.serving("b") as (second,):
            seen: set[int] = set()

            def renewed() -> bool:
                seen.update(wake_at for (wake_at,) in world.rows("SELECT wake_at FROM alerts"))
                return len(seen) > 10

            await asyncio.to_thread(wait_until, renewed, what="three leases of renewals")
            world.script.release()
            assert (await second.decision(alert_id))["attempt"] == 1
            assert decided(second) == []


async def test_a_replica_that_was_stopped_past_its_lease_loses_and_acks(
    tmp_path: Path, postgres: PostgresServer, server: Broker | None
) -> None:
    engine = {"lease_s": 2, "sweep_s": NEVER_S, "watchdog_s": 60}
    async with (
        replicas(tmp_path, postgres, server, engine=engine) as world,
        world.serving("a") as (first,),
    ):
        (alert_id,) = await post(first, native("held", "al_slow"))
        await world.script.held.wait()
        async with world.serving("b") as (second,):
            first.send(signal.SIGSTOP)
            world.script.release()
            decision = await second.decision(alert_id)
            assert decision["attempt"] == 2
            first.send(signal.SIGCONT)
            await first.until_ready()
            (late,) = await post(first, native("late", "al_good"))
            await first.decision(late)
            assert await first.terminated() == 0
            assert together(await second.settled()) == (2, 2, 0, True)
            assert sorted(decided(first, second)) == sorted([alert_id, late])


async def test_what_a_drain_could_not_finish_is_taken_over_at_once(
    tmp_path: Path, postgres: PostgresServer, server: Broker | None
) -> None:
    engine = {"lease_s": NEVER_S, "sweep_s": NEVER_S}
    async with (
        replicas(tmp_path, postgres, server, engine=engine, http={"drain_s": 0.5}) as world,
        world.serving("a") as (first,),
    ):
        (alert_id,) = await post(first, native("held", "al_slow"))
        await world.script.held.wait()
        async with world.serving("b") as (second,):
            assert await first.terminated() == 75
            world.script.release()
            assert (await second.decision(alert_id))["outcome"] == "actions"


async def test_replicas_do_not_share_what_is_their_own(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    async with (
        replicas(tmp_path, postgres, None) as world,
        world.serving("a") as (first,),
    ):
        twin = Daemon(world.project, replica="a")
        twin.folder = twin.folder.with_name("twin")
        twin.spawn()
        try:
            assert await twin.ended() == 78
            assert f"in use by process {first.pid}" in twin.text()
            assert "store.data" in twin.text()
        finally:
            twin.kill()


# --- a broker or a database that dies -------------------------------------------------------------


async def test_a_broker_that_dies_and_comes_back_needs_no_hand(
    tmp_path: Path, postgres: PostgresServer, own_server: Broker
) -> None:
    async with (
        replicas(tmp_path, postgres, own_server, engine={"sweep_s": 1}) as world,
        world.serving("a", "b") as daemons,
    ):
        (held,) = await post(daemons[0], native("held", "al_slow"))
        await world.script.held.wait()
        own_server.kill()
        for daemon in daemons:
            told = await daemon.until_ready(ready=False)
            assert told["queue"] != "ok"
            assert told["store"] == "ok"
        meanwhile = await post(
            daemons[0], *(native(str(n), "al_good", entity=f"unit-{n}") for n in range(20))
        )
        world.script.release()
        assert (await daemons[1].decision(held))["attempt"] == 1, "no broker is needed for that"
        await asyncio.to_thread(own_server.start)
        for daemon in daemons:
            assert (await daemon.until_ready())["queue"] == "ok"
        assert together(await daemons[0].settled()) == (21, 21, 0, True)
        assert sorted(decided(*daemons)) == sorted([held, *meanwhile])


async def test_a_broker_that_lost_its_memory_is_told_everything_again(
    tmp_path: Path, postgres: PostgresServer, own_server: Broker
) -> None:
    engine = {"fast_slots": 1, "sweep_s": NEVER_S}
    async with (
        replicas(tmp_path, postgres, own_server, engine=engine) as world,
        world.serving("a") as (daemon,),
    ):
        await post(daemon, native("held", "al_slow"))
        await world.script.held.wait()
        await post(daemon, *(native(str(n), "al_good", entity=f"unit-{n}") for n in range(20)))
        own_server.kill()
        own_server.lose_files()
        await asyncio.to_thread(own_server.start)
        world.script.release()
        assert together(await daemon.settled()) == (21, 21, 0, True)
        assert daemon.logged("queue_lost_its_memory")


async def test_a_broker_that_hangs_is_told_and_loses_no_alert(
    tmp_path: Path, postgres: PostgresServer, own_server: Broker
) -> None:
    """It takes connections, and answers nothing."""
    async with (
        replicas(tmp_path, postgres, own_server, engine={"sweep_s": 1}) as world,
        world.serving("a") as (daemon,),
    ):
        own_server.pause()
        told = await daemon.until_ready(ready=False)
        assert told["queue"] != "ok"
        await post(daemon, native("1", "al_good"))
        own_server.resume()
        await daemon.until_ready()
        assert together(await daemon.settled()) == (1, 1, 0, True)
        assert await daemon.terminated() == 0


async def test_a_start_does_not_wait_for_the_broker(
    tmp_path: Path, postgres: PostgresServer, own_server: Broker
) -> None:
    own_server.kill()
    async with replicas(tmp_path, postgres, own_server, engine={"sweep_s": 1}) as world:
        daemon = Daemon(world.project, replica="a")
        daemon.spawn()
        try:
            told = await daemon.until_ready(ready=False)
            assert told["queue"] != "ok"
            (alert_id,) = await post(daemon, native("early", "al_good"))
            await asyncio.to_thread(own_server.start)
            await daemon.until_ready()
            assert (await daemon.decision(alert_id))["outcome"] == "actions"
            assert await daemon.terminated() == 0
        finally:
            daemon.kill()


async def test_a_database_that_dies_and_comes_back_needs_no_hand(
    tmp_path: Path, server: Broker | None
) -> None:
    with running_postgres() as own:
        async with (
            replicas(tmp_path, own, server, engine={"sweep_s": 1, "lease_s": 2}) as world,
            world.serving("a", "b") as daemons,
        ):
            before = await post(
                daemons[0], *(native(str(n), "al_good", entity=f"unit-{n}") for n in range(20))
            )
            (held,) = await post(daemons[0], native("held", "al_slow"))
            await world.script.held.wait()
            await asyncio.to_thread(own.stop, "immediate")
            for daemon in daemons:
                told = await daemon.until_ready(ready=False)
                assert told["store"] != "ok"
            async with Client(daemons[0].port) as client:
                refused = await client.request("POST", "/api/v1/alerts", body=b"[]")
                assert refused.status == 400, "what is no alert is none without a store either"
                body = b'{"alarm": "al_good", "fired_at": "2026-03-01T11:59:00Z"}'
                refused = await client.request("POST", "/api/v1/alerts", body=body)
                assert refused.status == 503
                assert "retry-after" in refused.headers
            world.script.release()
            await asyncio.to_thread(own.start)
            for daemon in daemons:
                assert (await daemon.until_ready())["store"] == "ok"
            (after,) = await post(daemons[1], native("after", "al_good"))
            assert together(await daemons[0].settled()) == (22, 22, 0, True)
            assert sorted(decided(*daemons)) == sorted([*before, held, after])
