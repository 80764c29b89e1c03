"""What was answered with a 2xx outlives any death of the process."""

from __future__ import annotations

import asyncio
import random
import re
import signal
import subprocess
from pathlib import Path

import orjson

from tests.daemon import Daemon, Project, good_tool, native, post, running, served
from tests.daemon_neighbours import Client, MetricsScript, Receiver
from tests.scripted_server import ScriptedServer
from tests.servers import binary, wait_until

SEED = 4711
ALERTS = 500
KILLS = 10
SENDERS = 6


class Journal:
    """What the sender saw: alert ids by 2xx. Ends the daemon after each of `moments` answers."""

    def __init__(self, daemon: Daemon, moments: list[int]) -> None:
        self.promised: dict[str, str] = {}
        self.answers = 0
        self._daemon = daemon
        self._moments = moments
        self.died = asyncio.Event()
        self.back = asyncio.Event()
        self.back.set()

    def answered(self, name: str, alert_id: str) -> None:
        self.promised[name] = alert_id
        self.answers += 1
        if self._moments and self.answers >= self._moments[0]:
            self._moments.pop(0)
            self.back.clear()
            self._daemon.send(signal.SIGKILL)
            self.died.set()


async def test_sigkill_at_ten_moments_loses_nothing_and_decides_nothing_twice(
    tmp_path: Path,
) -> None:
    rng = random.Random(SEED)
    moments = sorted(rng.sample(range(5, ALERTS), KILLS))
    # Every seventh message is refused at first, so that messages wait when the process dies.
    receiver = Receiver(refuse=lambda count: count % 7 == 0)
    names = [f"alert-{n}" for n in range(ALERTS)]
    left = iter(names)
    async with ScriptedServer(MetricsScript()) as metrics, ScriptedServer(receiver) as hook:
        project = Project(
            folder=tmp_path / "project",
            nodes={"a": good_tool()},
            metrics_url=metrics.url,
            hook_url=hook.url,
        ).write()
        with running(Daemon(project)) as daemon:
            journal = Journal(daemon, list(moments))
            await daemon.started()

            async def send() -> None:
                async with Client(daemon.port) as client:
                    for name in left:
                        body = orjson.dumps(native(name, "al_a", entity=name))
                        while name not in journal.promised:
                            await journal.back.wait()
                            try:
                                reply = await client.request("POST", "/api/v1/alerts", body=body)
                            except (ConnectionError, asyncio.IncompleteReadError):
                                await asyncio.sleep(0)
                                continue
                            assert reply.status in {202, 429, 503}, reply
                            if reply.status == 202:
                                (alert_id,) = orjson.loads(reply.body)["alert_ids"]
                                journal.answered(name, alert_id)

            async def restart() -> None:
                for _ in range(KILLS):
                    await journal.died.wait()
                    journal.died.clear()
                    assert await daemon.ended() == -signal.SIGKILL
                    await daemon.started()
                    journal.back.set()

            async with asyncio.TaskGroup() as group:
                group.create_task(restart())
                for _ in range(SENDERS):
                    group.create_task(send())
            ledger = await daemon.settled()
            assert await daemon.terminated() == 0
        rows = project.rows("select alert_id, count(*) from decisions group by alert_id")
        attempts = project.rows("select max(attempts), sum(attempts) from alerts")

    decided = dict(rows)
    assert len(journal.promised) == ALERTS
    assert {decided.get(alert_id) for alert_id in journal.promised.values()} == {1}
    assert (ledger["accepted"], ledger["decided"], ledger["balances"]) == (ALERTS, ALERTS, True)
    assert (ledger["dead_lettered"], ledger["outbox_given_up"]) == (0, 0)
    assert receiver.forged == []
    assert set(receiver.bodies) == {f"{alert_id}:decision" for alert_id in decided}
    for key, bodies in receiver.bodies.items():
        assert len(set(bodies)) == 1, key
        assert orjson.loads(bodies[0])["alert_id"] == key.partition(":")[0]
    repeats = sum(len(bodies) - 1 for bodies in receiver.bodies.values())
    print(f"\nkilled at {moments}; (most, all) attempts {attempts}; sent again {repeats}")  # noqa: T201 - a figure


async def test_the_fsync_comes_before_the_2xx(tmp_path: Path) -> None:
    strace = binary("strace")
    trace = tmp_path / "trace"
    async with ScriptedServer(MetricsScript()) as metrics:
        project = Project(
            folder=tmp_path / "project", nodes={"a": good_tool()}, metrics_url=metrics.url
        ).write()
        async with served(project) as daemon:
            argv = [
                strace, "-f", "-y", "-s", "64", "-o", str(trace), "-p", str(daemon.pid),
                "-e", "trace=fsync,fdatasync,read,recvfrom,recvmsg,write,writev,sendto,sendmsg",
            ]  # fmt: skip
            tracer = await asyncio.to_thread(subprocess.Popen, argv, stderr=subprocess.PIPE)
            try:
                assert tracer.stderr is not None
                attached = await asyncio.to_thread(tracer.stderr.readline)
                assert b"attached" in attached, attached
                await post(daemon, native("1", "al_a"))
            finally:
                tracer.send_signal(signal.SIGINT)
                await asyncio.to_thread(tracer.communicate, timeout=30)
            assert await daemon.terminated() == 0
    lines = trace.read_text(errors="replace").splitlines()
    asked = _first(lines, r"(read|recv\w*)\(.*POST /api/v1/alerts")
    answered = _first(lines, r"(write|writev|sendto|sendmsg)\(.*HTTP/1\.1 202")
    assert asked < answered
    synced = _synced(lines[asked:answered])
    assert any("triage.db" in path for path in synced), lines[asked : answered + 1]


def _first(lines: list[str], pattern: str) -> int:
    return next(index for index, line in enumerate(lines) if re.search(pattern, line))


def _synced(lines: list[str]) -> list[str]:
    """Paths whose fsync was begun and had ended within these lines."""
    paths, begun = [], {}
    for line in lines:
        thread = line.split()[0]
        if found := re.search(r"f(?:data)?sync\(\d+<([^>]*)>\s*(.*)", line):
            if "unfinished" in found[2]:
                begun[thread] = found[1]
            elif found[2].endswith("= 0"):
                paths.append(found[1])
        elif re.search(r"f(?:data)?sync resumed>.*= 0", line) and thread in begun:
            paths.append(begun.pop(thread))
    return paths


def test_the_reading_of_traces_can_tell() -> None:
    """Begun and not ended is not synced."""
    begun = "12 fdatasync(9</x/triage.db-wal> <unfinished ...>"
    assert _synced([begun]) == []
    assert _synced([begun, "13 <... fdatasync resumed>) = 0"]) == []
    assert _synced([begun, "12 <... fdatasync resumed>)      = 0"]) == ["/x/triage.db-wal"]
    assert _synced(["12 fsync(9</x/triage.db>) = 0"]) == ["/x/triage.db"]
    assert _synced(["12 fsync(9</x/triage.db>) = -1 EIO (Input/output error)"]) == []


async def test_a_store_that_is_no_database_is_refused_with_a_message(tmp_path: Path) -> None:
    project = Project(folder=tmp_path / "project", nodes={"a": good_tool()}).write()
    project.database.parent.mkdir()
    project.database.write_bytes(b"this is no database" * 1000)
    with running(Daemon(project)) as daemon:
        daemon.spawn()
        assert await daemon.ended() == 78
        assert "Traceback" not in daemon.text()
        assert "triage.db" in daemon.text()
    assert project.database.read_bytes().startswith(b"this is no database")


async def test_two_daemons_do_not_share_a_store(tmp_path: Path) -> None:
    project = Project(folder=tmp_path / "project", nodes={"a": good_tool()}).write()
    async with served(project) as first:
        with running(Daemon(project)) as second:
            second.spawn()
            assert await second.ended() == 78
            assert f"in use by process {first.pid}" in second.text()
        assert first.is_alive
        wait_until(lambda: first.get("/-/ready")["ready"], what="the first")


async def test_what_was_in_hand_at_every_crash_becomes_a_dead_letter(tmp_path: Path) -> None:
    script = MetricsScript()
    async with ScriptedServer(script) as metrics:
        project = Project(
            folder=tmp_path / "project",
            nodes={"slow": good_tool("held")},
            metrics_url=metrics.url,
            engine={"max_attempts": 2, "deadline_s": 50},
            source={"timeout_s": 40},
        ).write()
        async with served(project) as daemon:
            await post(daemon, native("fatal", "al_slow"))
            for _ in range(2):
                await script.held.wait()
                script.held.clear()
                daemon.kill()
                await daemon.started()
            ledger = await daemon.settled()
            assert (ledger["dead_lettered"], ledger["balances"]) == (1, True)
            ((reason, detail),) = project.rows("SELECT reason, detail FROM dead_letters")
            assert reason == "attempts_used_up"
            assert detail.startswith("2 attempts ended without a decision")
            assert "a process ended" in detail
            assert not script.held.is_set(), "it was not tried again"
