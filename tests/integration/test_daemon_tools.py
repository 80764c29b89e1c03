"""Tools that misbehave, each contained: the others' alerts are decided all the same."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.daemon import Daemon, Project, good_tool, native, post, running, served, silent_tool
from tests.daemon_neighbours import MetricsScript
from tests.scripted_server import Script, ScriptedServer, flood, reply
from tests.servers import wait_until

HUGE = 50_000_000  # bytes

BLOCKING = {
    # The loop's thread is busy, and the watchdog's can still run.
    "loop": (silent_tool("while True: pass"), 70),
    # A regular expression that holds the interpreter's lock: only the kernel's timer is left.
    "regex": (
        silent_tool('re.match("(a+)+$", "a" * 60 + "b")', imports="import re\n"),
        -signal.SIGPROF,
    ),
}


@pytest.mark.parametrize("what", BLOCKING)
async def test_a_tool_that_blocks_the_loop_ends_the_process_and_is_not_run_again(
    tmp_path: Path, what: str
) -> None:
    source, code = BLOCKING[what]
    async with ScriptedServer(MetricsScript()) as metrics:
        project = Project(
            folder=tmp_path / "project",
            nodes={"good": good_tool(), "bad": source},
            metrics_url=metrics.url,
            engine={"watchdog_s": 0.5},
        ).write()
        with running(Daemon(project)) as daemon:
            await daemon.started()
            (before,) = await post(daemon, native("before", "al_good"))
            assert (await daemon.decision(before))["outcome"] == "actions"
            (bad,) = await post(daemon, native("bad", "al_bad"))
            assert await daemon.ended() == code
            if code == 70:
                assert len(project.quarantine) == 1
            await daemon.started()
            (sha256, reason) = next(iter(project.quarantine.items()))
            assert reason == "it blocked the event loop"
            (blocked,) = daemon.logged("event_loop_blocked")
            assert blocked["tool_sha256"] == sha256
            assert "v1.py" in blocked["stack"]
            decision = await daemon.decision(bad)
            (after,) = await post(daemon, native("after", "al_good"))
            assert (await daemon.decision(after))["outcome"] == "actions"
            assert (await daemon.settled())["balances"] is True
            assert await daemon.terminated() == 0
    assert decision["outcome"] == "escalate"
    assert decision["nodes"][0]["failure"]["reason"] == "tool_quarantined"
    assert decision["attempt"] == 2


async def test_a_process_that_was_killed_in_a_tool_accuses_nobody(tmp_path: Path) -> None:
    """SIGKILL says nothing about the tool that happened to run."""
    project = Project(
        folder=tmp_path / "project",
        nodes={"bad": silent_tool("while True: pass")},
        engine={"watchdog_s": 600},
    ).write()
    with running(Daemon(project)) as daemon:
        await daemon.started()
        await post(daemon, native("1", "al_bad"))
        mark = project.folder / "data" / "running-tool"
        await _until_marked(mark)
        daemon.send(signal.SIGKILL)
        await daemon.ended()
    project.config.write_text(project.config_text().replace("al_bad", "al_other"))
    sop = project.sop.read_text()
    project.sop.write_text(sop.replace("al_bad", "al_other"))
    async with served(project) as again:
        assert again.logged("event_loop_blocked") == []
        assert project.quarantine == {}


async def _until_marked(mark: Path) -> None:
    await asyncio.to_thread(
        wait_until, lambda: bool(mark.read_bytes().strip(b"\0")), what="the tool's mark"
    )


MISBEHAVING: dict[str, tuple[str, str]] = {
    "raises": (silent_tool('raise KeyError("queue")'), "tool_raised"),
    "nothing": (silent_tool("return None"), "invalid_result"),
    "nonsense": (silent_tool("return True"), "invalid_result"),
    "recursion": (silent_tool("return evaluate(warehouse, timestamp, context)"), "tool_raised"),
    "memory": (silent_tool("return [0] * 10**15"), "tool_raised"),
    "not_asked": (
        silent_tool('return context.answer("select 1")'),
        "tool_raised",
    ),
    "too_many": (
        good_tool().replace("timestamp, 300)]", "timestamp, 300)] * 65"),
        "invalid_queries",
    ),
    "undeclared": (good_tool().replace('"metrics"', '"other"'), "undeclared_source"),
    "rejected": (
        good_tool().replace("timestamp, 300)]", "timestamp, -1)]"),
        "query_rejected",
    ),
    "huge": (good_tool("huge"), "answer_too_large"),
    "down": (good_tool("down"), "source_server_error"),
}


async def test_every_other_misbehaviour_fails_its_own_node_only(tmp_path: Path) -> None:
    """All at once, in one daemon, between alerts of a tool that works."""
    sent: list[int] = []

    def instead(metric: str) -> Script | None:
        if metric == "huge":
            return flood(HUGE, stated=False, on_byte=sent.append)
        if metric == "down":
            return reply(503, b"down")
        return None

    script = MetricsScript()
    script.instead = instead
    async with ScriptedServer(script) as metrics:
        project = Project(
            folder=tmp_path / "project",
            nodes={"good": good_tool(), **{name: tool for name, (tool, _) in MISBEHAVING.items()}},
            metrics_url=metrics.url,
            source={"breaker_failures": 1000},
        ).write()
        async with served(project) as daemon:
            alerts = [native(name, f"al_{name}") for name in MISBEHAVING]
            good = [native(f"good-{n}", "al_good", entity=f"u{n}") for n in range(20)]
            ids = await post(daemon, *good[:10], *alerts, *good[10:])
            decisions = [await daemon.decision(alert_id) for alert_id in ids]
            resident = daemon.resident_mb()
            ledger = await daemon.settled()
            assert daemon.logged("attempt_crashed") == []
            assert await daemon.terminated() == 0
    by_alarm: dict[str, list[dict[str, Any]]] = {}
    for decision in decisions:
        by_alarm.setdefault(decision["alarm"], []).append(decision)
    assert [one["outcome"] for one in by_alarm.pop("al_good")] == ["actions"] * 20
    reasons = {
        alarm.removeprefix("al_"): one["nodes"][0]["failure"]["reason"]
        for alarm, (one,) in by_alarm.items()
    }
    assert reasons == {name: reason for name, (_, reason) in MISBEHAVING.items()}
    assert all(one["outcome"] == "escalate" for (one,) in by_alarm.values())
    assert ledger["balances"] is True
    assert max(sent) < HUGE / 2, "the answer was not read to its end"
    assert resident < 150
