"""Start, reload, drain, end: what an operator does to a daemon that has alerts in flight."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import time
from pathlib import Path
from typing import Any

import pytest

from tests.daemon import Daemon, Project, good_tool, native, post, running, served
from tests.daemon_neighbours import Client, MetricsScript, Reply
from tests.scripted_server import ScriptedServer, hang
from tests.servers import HOST, wait_until


class Held:
    """A daemon with one alert in flight, whose source waits to be released."""

    def __init__(self, folder: Path, metrics: ScriptedServer, **sections: Any) -> None:
        self.project = Project(
            folder=folder / "project",
            nodes={"good": good_tool(), "slow": good_tool("held")},
            metrics_url=metrics.url,
            engine={"deadline_s": 50},
            source={"timeout_s": 40},
            **sections,
        ).write()


async def hold(daemon: Daemon, script: MetricsScript) -> str:
    (alert_id,) = await post(daemon, native("held", "al_slow"))
    await script.held.wait()
    return alert_id


async def reload(daemon: Daemon) -> Reply:
    async with Client(daemon.port) as client:
        return await client.request("POST", "/-/reload")


# --- start ----------------------------------------------------------------------------------------


async def test_ready_soon_and_small_when_idle(tmp_path: Path) -> None:
    project = Project(folder=tmp_path / "project", nodes={"a": good_tool()}).write()
    with running(Daemon(project)) as daemon:
        figures = []
        for _ in range(2):  # the second start finds its database
            began = time.monotonic()
            await daemon.started()
            figures.append((time.monotonic() - began, daemon.resident_mb()))
            assert await daemon.terminated() == 0
    for seconds, megabytes in figures:
        print(f"\nready after {seconds:.2f} s, {megabytes:.0f} MB resident")  # noqa: T201 - a figure
        assert megabytes < 150


STARTING = '''
import asyncio
import os

from triage.adapters.memory import MemorySource
from triage.errors import SourceFailed, SourceFailure


class Starting(MemorySource):
    """Connects when somebody writes into the FIFO at `path`."""

    def __init__(self, name, path):
        super().__init__(name, {})
        self.path = path
        self.connected = False

    async def settled(self):
        pipe = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK)
        written = asyncio.Event()
        asyncio.get_running_loop().add_reader(pipe, written.set)
        try:
            await written.wait()
        finally:
            asyncio.get_running_loop().remove_reader(pipe)
            os.close(pipe)
        self.connected = True

    async def ask(self, query, *, timeout_s):
        if not self.connected:
            raise SourceFailed(SourceFailure.CONNECT, "it has yet to connect")
        return []


def source(name, *, path, **settings):
    return Starting(name, path)
'''


def starting(folder: Path) -> Project:
    """Its one source connects when `folder`/pipe is written to."""
    (folder / "starting.py").write_text(STARTING)
    os.mkfifo(folder / "pipe")
    return Project(
        folder=folder / "project",
        nodes={"a": good_tool()},
        source={
            "type": "custom",
            "factory": "starting:source",
            "python_path": str(folder),
            "path": str(folder / "pipe"),
        },
    ).write()


async def test_alerts_wait_for_sources_that_are_still_connecting(tmp_path: Path) -> None:
    async with served(starting(tmp_path)) as daemon:
        (alert_id,) = await post(daemon, native("early", "al_a"))
        await asyncio.to_thread((tmp_path / "pipe").write_text, "go")
        decision = await daemon.decision(alert_id)
        assert decision["outcome"] == "inconclusive", decision
        assert not decision["degraded"]


async def test_a_stop_does_not_wait_for_a_source_that_never_connects(tmp_path: Path) -> None:
    async with served(starting(tmp_path)) as daemon:
        await post(daemon, native("early", "al_a"))
        assert await daemon.terminated() == 0
        assert daemon.project.rows("SELECT status FROM alerts") == [("pending",)]


async def test_an_address_in_use_is_69(tmp_path: Path) -> None:
    project = Project(folder=tmp_path / "project", nodes={"a": good_tool()}).write()
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        taken.listen()
        listen = f"{HOST}:{taken.getsockname()[1]}"
        with running(Daemon(project, listen=listen)) as daemon:
            daemon.spawn()
            assert await daemon.ended() == 69
            assert "Traceback" not in daemon.text()
            assert f"cannot listen on {listen}" in daemon.text()


@pytest.mark.parametrize(
    ("broken", "told"),
    [
        ("[engine]\ndeadline_s = -1\n", "deadline_s"),
        ("[unknown]\n", "unknown"),
        ("[http\n", "triage.toml:1"),
        ("[sinks.hook]\ntype = 'webhook'\nurl = 'http://x'\nsecret_env = 'NO_SUCH'\n", "NO_SUCH"),
        ("[store]\nurl = 'mysql://x/y'\n", "must begin with one of sqlite:///"),
        ("queue = 'sqlite:///elsewhere.db'\n", "lives in the store"),
        ("[streams.floor]\nurl = 'redis://127.0.0.1'\n", "streams.floor.stream"),
        ("[queue]\nurl = 'redis://127.0.0.1:port'\n", "triage: "),
        ("[sop]\nfile = 'none.yaml'\n", "none.yaml"),
        ("[http]\ntls_cert_file = 'none.pem'\ntls_key_file = 'none.pem'\n", "tls_cert_file"),
        ("[http]\nlisten = '0.0.0.0:0'\n", "there is no token"),
    ],
)
async def test_a_configuration_that_cannot_be_used_is_78_without_a_traceback(
    tmp_path: Path, broken: str, told: str
) -> None:
    project = Project(folder=tmp_path / "project", nodes={"a": good_tool()}).write()
    sources = f"[sources.metrics]\ntype = 'prometheus'\nurl = '{project.metrics_url}'\n"
    project.config.write_text(broken + sources)
    with running(Daemon(project, listen="" if "listen" not in broken else "0.0.0.0:0")) as daemon:
        daemon.spawn()
        assert await daemon.ended() == 78
        assert "Traceback" not in daemon.text()
        assert told in daemon.text()


async def test_a_store_that_is_away_is_69_to_be_started_again(tmp_path: Path) -> None:
    project = Project(folder=tmp_path / "project", nodes={"a": good_tool()}).write()
    sources = f"[sources.metrics]\ntype = 'prometheus'\nurl = '{project.metrics_url}'\n"
    project.config.write_text("store = 'postgresql://127.0.0.1:9/y'\n" + sources)
    with running(Daemon(project)) as daemon:
        daemon.spawn()
        assert await daemon.ended() == 69
        assert "Traceback" not in daemon.text()
        assert "cannot be read" in daemon.text()


def _damage_quarantine(project: Project) -> None:
    path = project.folder / "data" / "quarantine.json"
    path.parent.mkdir()
    path.write_text("{")


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (lambda p: p.sop.write_text(p.sop_text() + "x: 1\n"), "sop.yaml:"),
        (lambda p: p.sop.write_bytes(b"sop: \xff\n"), "UTF-8"),
        (lambda p: (p.folder / "tools_lib/a/v1.py").write_text("# changed\n"), "v1.py"),
        (lambda p: (p.folder / "tools_lib/a/tool.toml").unlink(), "tool.toml"),
        (_damage_quarantine, "quarantine.json"),
    ],
    ids=["unknown key", "not UTF-8", "tampered tool", "missing tool", "damaged quarantine"],
)  # fmt: skip
async def test_a_procedure_that_cannot_be_used_is_78_and_says_where(
    tmp_path: Path, spoil: Any, told: str
) -> None:
    project = Project(folder=tmp_path / "project", nodes={"a": good_tool()}).write()
    spoil(project)
    with running(Daemon(project)) as daemon:
        daemon.spawn()
        assert await daemon.ended() == 78
        assert "Traceback" not in daemon.text()
        assert told in daemon.text()


# --- reload ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["signal", "request"])
async def test_a_good_reload_is_taken_up_and_what_is_in_flight_keeps_the_old(
    tmp_path: Path, how: str
) -> None:
    script = MetricsScript()
    async with ScriptedServer(script) as metrics:
        project = Held(tmp_path, metrics).project
        async with served(project) as daemon:
            held = await hold(daemon, script)
            project.sop.write_text(project.sop_text(version=2, action="other"))
            if how == "signal":
                daemon.send(signal.SIGHUP)
                await daemon.until_logged("reloaded")
            else:
                reply = await reload(daemon)
                assert reply.status == 200
                assert json.loads(reply.body)["sop_version"] == 2
            (new,) = await post(daemon, native("new", "al_good"))
            after = await daemon.decision(new)
            script.release()
            before = await daemon.decision(held)
            assert await daemon.terminated() == 0
    assert [action["action"] for action in after["actions"]] == ["other"]
    assert after["sop_version"] == 2
    assert [action["action"] for action in before["actions"]] == ["act"]
    assert before["sop_version"] == 1


@pytest.mark.parametrize("how", ["signal", "request"])
async def test_a_bad_reload_keeps_the_old_and_says_why(tmp_path: Path, how: str) -> None:
    script = MetricsScript()
    async with ScriptedServer(script) as metrics:
        project = Held(tmp_path, metrics).project
        async with served(project) as daemon:
            held = await hold(daemon, script)
            broken = project.sop_text(version=2).replace("on_true: [act]", "on_true: [nowhere]")
            project.sop.write_text(broken)
            if how == "signal":
                daemon.send(signal.SIGHUP)
            else:
                reply = await reload(daemon)
                assert reply.status == 422
                finding = json.loads(reply.body)["error"]["findings"][0]
                assert finding["file"].endswith("sop.yaml")
                assert finding["line"] > 0
                assert "nowhere" in finding["problem"]
            (refused,) = await daemon.until_logged("reload_refused")
            assert "nowhere" in refused["error"]
            (new,) = await post(daemon, native("new", "al_good"))
            assert (await daemon.decision(new))["sop_version"] == 1
            script.release()
            assert (await daemon.decision(held))["outcome"] == "actions"
            # Mended, it is taken up.
            project.sop.write_text(project.sop_text(version=3))
            assert (await reload(daemon)).status == 200
            assert await daemon.terminated() == 0


async def test_a_new_source_address_is_taken_up_and_the_old_answers_what_it_was_asked(
    tmp_path: Path,
) -> None:
    old, new = MetricsScript(value=20), MetricsScript(value=5)
    async with ScriptedServer(old) as before, ScriptedServer(new) as after:
        project = Held(tmp_path, before).project
        async with served(project) as daemon:
            held = await hold(daemon, old)
            project.metrics_url = after.url
            project.config.write_text(project.config_text())
            assert (await reload(daemon)).status == 200
            (fresh,) = await post(daemon, native("new", "al_good"))
            assert (await daemon.decision(fresh))["outcome"] == "no_fault"
            old.release()
            assert (await daemon.decision(held))["outcome"] == "actions"
            assert await daemon.terminated() == 0
        await asyncio.wait_for(before.hung_up.wait(), 30)


async def test_what_needs_a_restart_is_told_at_every_reload(tmp_path: Path) -> None:
    project = Project(folder=tmp_path / "project", nodes={"a": good_tool()}).write()
    async with served(project) as daemon:
        project.engine = {"fast_slots": 7}
        project.config.write_text(project.config_text())
        for _ in range(2):
            document = json.loads((await reload(daemon)).body)
            assert document["restart_needed"] == ["engine.fast_slots"]


async def test_reloads_under_load_lose_nothing(tmp_path: Path) -> None:
    async with ScriptedServer(MetricsScript()) as metrics:
        project = Project(
            folder=tmp_path / "project", nodes={"a": good_tool()}, metrics_url=metrics.url
        ).write()
        async with served(project) as daemon:
            for version in range(2, 12):
                project.sop.write_text(project.sop_text(version=version))
                alerts = [native(f"{version}-{n}", "al_a", entity=f"u{n}") for n in range(10)]
                replies = await asyncio.gather(post(daemon, *alerts), reload(daemon))
                assert replies[1].status == 200
            ledger = await daemon.settled()
            assert (ledger["accepted"], ledger["decided"], ledger["balances"]) == (100, 100, True)
            assert daemon.logged("attempt_crashed") == []
            outcomes = project.rows("select outcome, count(*) from decisions group by outcome")
            assert outcomes == [("actions", 100)]


# --- the end --------------------------------------------------------------------------------------


async def test_sigterm_drains_what_is_in_flight_and_takes_nothing_more(tmp_path: Path) -> None:
    script = MetricsScript()
    async with ScriptedServer(script) as metrics:
        project = Held(tmp_path, metrics, http={"drain_s": 30}).project
        async with served(project) as daemon:
            held = await hold(daemon, script)
            daemon.send(signal.SIGTERM)
            await daemon.until_logged("draining")
            async with Client(daemon.port) as client:
                body = json.dumps(native("late", "al_good")).encode()
                late = await client.request("POST", "/api/v1/alerts", body=body)
                ready = await client.request("GET", "/-/ready")
            assert (late.status, ready.status) == (503, 503)
            assert json.loads(ready.body)["draining"] is True
            script.release()
            assert await daemon.ended() == 0
            assert daemon.logged("stopped")
    assert project.rows("select alert_id from decisions") == [(held,)]


async def test_past_the_drains_limit_the_alert_is_kept_and_decided_after_a_restart(
    tmp_path: Path,
) -> None:
    script = MetricsScript()
    async with ScriptedServer(script) as metrics:
        project = Held(tmp_path, metrics, http={"drain_s": 0.5}).project
        async with served(project) as daemon:
            held = await hold(daemon, script)
            assert await daemon.terminated() == 75
            assert project.rows("select count(*) from decisions") == [(0,)]
            script.release()
            await daemon.started()
            decision = await daemon.decision(held)
            assert (decision["outcome"], decision["attempt"]) == ("actions", 2)
            assert await daemon.terminated() == 0


async def test_a_second_signal_ends_it_at_once(tmp_path: Path) -> None:
    script = MetricsScript()
    async with ScriptedServer(script) as metrics:
        project = Held(tmp_path, metrics, http={"drain_s": 600}).project
        async with served(project) as daemon:
            held = await hold(daemon, script)
            daemon.send(signal.SIGTERM)
            await daemon.until_logged("draining")
            daemon.send(signal.SIGINT)
            assert await daemon.ended(within_s=20) == 75
            script.release()
            await daemon.started()
            assert (await daemon.decision(held))["outcome"] == "actions"


async def test_a_client_that_stalls_does_not_hold_up_the_end(tmp_path: Path) -> None:
    project = Project(
        folder=tmp_path / "project", nodes={"a": good_tool()}, http={"drain_s": 2}
    ).write()
    async with served(project) as daemon:
        _, writer = await asyncio.open_connection(HOST, daemon.port)
        writer.write(
            b"POST /api/v1/alerts HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{"
        )
        await writer.drain()
        began = time.monotonic()
        assert await daemon.terminated() == 0
        assert time.monotonic() - began < 30
        writer.close()


async def test_a_process_that_was_stopped_for_a_while_goes_on(tmp_path: Path) -> None:
    async with ScriptedServer(MetricsScript()) as metrics:
        project = Project(
            folder=tmp_path / "project",
            nodes={"a": good_tool()},
            metrics_url=metrics.url,
            engine={"watchdog_s": 0.3},
        ).write()
        async with served(project) as daemon:
            daemon.send(signal.SIGSTOP)
            begun = os.times().elapsed
            await asyncio.to_thread(
                wait_until, lambda: os.times().elapsed - begun > 2, what="six limits"
            )
            daemon.send(signal.SIGCONT)
            (alert_id,) = await post(daemon, native("1", "al_a"))
            assert (await daemon.decision(alert_id))["outcome"] == "actions"
            assert daemon.logged("event_loop_blocked") == []
            assert await daemon.terminated() == 0


async def test_the_drains_limit_is_one_for_alerts_messages_and_requests(tmp_path: Path) -> None:
    """Not one after the other: whoever sent the SIGTERM has a limit too."""
    script = MetricsScript()
    async with ScriptedServer(script) as metrics, ScriptedServer(hang()) as receiver:
        project = Held(tmp_path, metrics, http={"drain_s": 3}, hook_url=receiver.url).project
        async with served(project) as daemon:
            (first,) = await post(daemon, native("1", "al_good"))
            await daemon.decision(first)
            await receiver.arrived(1)
            await hold(daemon, script)
            began = time.monotonic()
            assert await daemon.terminated() == 75
            assert time.monotonic() - began < 8, "three limits would be nine"
