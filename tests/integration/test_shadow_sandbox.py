"""What shadows run in: a sandbox that lets everything else go first, and says what tools say."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.command_line import TOOL
from triage.adapters.sandbox import MontySandbox, SandboxLimits
from triage.app.watchers import SHADOW_NICE, shadow_trials
from triage.clock import SystemClock
from triage.errors import SandboxFailed
from triage.model.decision import NodeId
from triage.model.query import encode_answer, query_digest
from triage.model.site import Site
from triage.tool_api import rows
from triage.trial.answers import DecisionAnswers
from triage.trial.model import Candidate, Setting

QUERY = rows("tables", "select depth from queues where name = :name", name="mail")
SETTING = Setting(
    site=Site(name="home", zone="UTC", units={}, facts={}),
    params={"depth": 10},
    timestamp=datetime(2026, 6, 1, tzinfo=UTC),
    entity="mail",
)


def recorded(depth: int) -> DecisionAnswers:
    return DecisionAnswers({query_digest(QUERY): encode_answer(({"depth": depth},))})


def candidate(text: str = TOOL) -> Candidate:
    return Candidate(node=NodeId("obs_deep"), text=text, sources=("tables",))


def priorities(pid: int) -> set[int]:
    """Of all its threads: the one that the code runs in is not the first."""
    folder = Path(f"/proc/{pid}/task")
    return {os.getpriority(os.PRIO_PROCESS, int(one.name)) for one in folder.iterdir()}


@pytest.mark.parametrize("nice", [0, 7, SHADOW_NICE])
async def test_its_process_has_the_priority_that_it_is_given(nice: int) -> None:
    ours = os.getpriority(os.PRIO_PROCESS, 0)
    sandbox = MontySandbox(SandboxLimits(workers=1, nice=nice))
    await sandbox.open()
    try:
        for _ in range(2):  # a process that serves a second session is not lowered again
            async with sandbox.session(prelude="", stubs="", functions={}, inputs={}) as session:
                assert (await session.run("print(1)", timeout_s=30)).printed == "1\n"
                (pid,) = sandbox.worker_pids
                assert priorities(pid) == {min(19, ours + nice)}
    finally:
        await sandbox.close()


async def test_a_shadow_is_judged_on_what_was_recorded() -> None:
    async with shadow_trials(SystemClock()) as trials:
        some = [(SETTING, recorded(depth)) for depth in (5, 40)]
        low, high = await trials.run(candidate(), some)
        (unheard,) = await trials.run(candidate(), [(SETTING, DecisionAnswers({}))])
    assert (low.value, high.value) == ("false", "true")
    assert high.clauses[0].observed == 40
    assert (unheard.ok, unheard.failure) == (False, "unrecorded")


async def test_what_a_shadow_does_is_its_own_failure() -> None:
    bad = TOOL.replace("    if not found:", "    open('/etc/passwd')\n    if not found:")
    async with shadow_trials(SystemClock()) as trials:
        (raised,) = await trials.run(candidate(bad), [(SETTING, recorded(5))])
        (again,) = await trials.run(candidate(), [(SETTING, recorded(5))])
    assert (raised.ok, raised.failure) == (False, "tool_raised")
    assert again.value == "false"


async def test_without_a_sandbox_there_is_a_word_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MontySandbox, "_start", _cannot_start)
    with pytest.raises(SandboxFailed, match="cannot start"):
        async with shadow_trials(SystemClock()):
            pass


def _cannot_start(_: MontySandbox) -> None:
    raise OSError("no such program")
