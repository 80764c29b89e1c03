"""Candidates that harm or cheat: each is a failed setting, and what follows is tried as ever."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.integration.sandbox_reaches import PRINT_NOTHING, REACHED, REACHES, Reach
from tests.unit.trial.trial_world import (
    SANDBOX,
    SHORT,
    Given,
    asking,
    candidate,
    depth,
    in_sandbox,
    indented,
    judging,
    setting,
    shown,
    stepping,
)
from triage.adapters.sandbox import SandboxLimits
from triage.model.query import Answer, Query
from triage.trial.limits import TrialLimits
from triage.trial.model import FAILED

BOMBS = {
    "a loop": ("while True:\n    pass", "took longer than 1 s"),
    "a loop that catches everything": (
        "while True:\n  try:\n    while True:\n      pass\n  except BaseException:\n    pass",
        "took longer than 1 s",
    ),
    "memory": ("x = []\nwhile True:\n    x.append('a' * 100_000)", "it needed more than"),
    "a long text": ("x = 'x' * 10**10", "it needed more than"),
    "recursion": ("def f(n):\n    return f(n + 1)\nf(0)", "calls itself more than"),
    "printing": ("while True:\n    print('x' * 1_000)", "it printed far more than"),
}
SETTINGS = ("a", "b", "bad", "c", "d")


@pytest.mark.parametrize("name", BOMBS)
@pytest.mark.parametrize("step", [judging, asking, stepping])
async def test_bombs_end_and_what_follows_is_tried(name: str, step) -> None:  # type: ignore[no-untyped-def]
    bomb, why = BOMBS[name]
    rest = "return []" if step is asking else "return no_data('x')"
    text = step(f"if context.entity == 'bad':\n{indented(bomb)}\n{rest}")
    one = candidate(text, dynamic=step is stepping)
    async with in_sandbox(SHORT) as trials:
        tried = await trials.run(one, [(setting(name), depth()) for name in SETTINGS])
    assert [one.value for one in tried] == ["no_data", "no_data", FAILED, "no_data", "no_data"]
    assert tried[2].failure == "fallback_sandbox"
    assert why in tried[2].detail


@pytest.mark.parametrize(
    ("bomb", "why"),
    [
        ("while True:\n    pass", "loading took longer than 1 s"),
        ("x = 'x' * 10**10", "the run was ended because it needed more than"),
    ],
)
async def test_a_bomb_while_loading_fails_every_setting(bomb: str, why: str) -> None:
    async with in_sandbox(TrialLimits(load_s=1.0)) as trials:
        tried = await trials.run(candidate(bomb), [(setting(), depth())] * 3)
    assert [one.failure for one in tried] == ["fallback_sandbox"] * 3
    assert all(one.detail.startswith(why) for one in tried)


async def test_after_so_many_bombs_the_rest_is_not_tried() -> None:
    given = depth()
    async with in_sandbox() as trials:
        tried = await trials.run(candidate(judging("x = 'x' * 10**10")), [(setting(), given)] * 6)
    assert [one.failure for one in tried] == ["fallback_sandbox"] * 6
    assert [one.detail.startswith("not tried: 3 settings") for one in tried] == [False] * 3 + [
        True
    ] * 3
    assert len(given.asked) == 3 + 0


async def test_what_others_used_up_is_not_held_against_a_setting() -> None:
    """Each keeps 10 MB for ever, of 48."""
    kept = "KEPT = []\n" + judging("KEPT.append('x' * 10_000_000)\nreturn no_data('x')")
    async with in_sandbox() as trials:
        tried = await trials.run(candidate(kept), [(setting(), depth())] * 12)
    assert [one.value for one in tried] == ["no_data"] * 12


async def test_a_result_of_30_mb_does_not_reach_us() -> None:
    text = judging(
        "return Verdict(Truth.TRUE, tuple(compare('x' * 500_000, 1, '>', 0) for _ in range(60)))"
    )
    async with in_sandbox() as trials:
        [tried] = await trials.run(candidate(text), [(setting(), depth())])
    assert tried.failure == "invalid_result"


async def test_queries_of_30_mb_do_not_reach_us() -> None:
    text = asking("return [rows('memory', 'x' * 60_000 + str(n)) for n in range(64)]")
    given = depth()
    async with in_sandbox() as trials:
        [tried] = await trials.run(candidate(text), [(setting(), given)])
    assert tried.failure == "fallback_sandbox"
    assert given.asked == []


def names_in(folder: Path) -> list[str]:
    return [each.name for each in folder.iterdir()]


@pytest.mark.parametrize("reach", REACHES, ids=lambda reach: reach.name)
async def test_nothing_outside_is_reached(
    reach: Reach, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRIAGE_TEST_SECRET", "hunter2")
    file = tmp_path / "secret"
    file.write_text("hunter2")
    code = reach.code.replace("PATH", repr(str(file))).replace("print(", "said.append(")
    body = f"said = []\n{code}\nreturn no_data(str(said))"
    async with in_sandbox() as trials:
        [tried] = await trials.run(candidate(judging(body)), [(setting(), depth())])
        [after] = await trials.run(candidate(), [(setting(), depth())])
    assert REACHED not in tried.explanation or reach.name in PRINT_NOTHING
    assert "hunter2" not in repr(tried)
    assert tried.value == FAILED or reach.name in PRINT_NOTHING
    assert after.value == "true"
    assert names_in(tmp_path) == ["secret"]
    assert file.read_text() == "hunter2"


@pytest.mark.parametrize(
    "name",
    [
        "exchange",
        "serve_tool",
        "_serving",
        "tool",
        "zone_offsets",
        "parent_verdicts",
        "parents",
        "params",
        "context_",
        "submit",
        "run_tool",
        "ask",
        "fired_at",
        "site",
    ],
)
async def test_what_serves_it_is_out_of_its_reach(name: str) -> None:
    async with in_sandbox() as trials:
        [tried] = await trials.run(candidate(judging(f"return {name}")), [(setting(), depth())])
    assert tried.detail == f"line 11: NameError: name {name!r} is not defined"


@pytest.mark.parametrize(
    "change",
    [
        "Truth.TRUE = Truth.FALSE",
        "Truth.TRUE = 7",
        "setattr(Truth, 'word', 'x')",
        "exec('Verdict = 7')",
        "Clause._fields = ()",
        "Context.answer = 7",
    ],
)
async def test_what_it_changes_in_one_session_does_not_outlive_it(change: str) -> None:
    """Nor does it break what serves it."""
    one = candidate(judging(f"{change}\nreturn no_data('x')"))
    async with in_sandbox() as trials:
        first = await trials.run(one, [(setting(), depth())] * 3)
        [after] = await trials.run(candidate(), [(setting(), depth())])
    assert len(first) == 3
    assert (after.value, after.subject) == ("true", "CH-1")


async def test_a_file_can_keep_state_within_a_session_and_not_beyond() -> None:
    text = "SEEN = []\n" + judging("SEEN.append(1)\nreturn no_data(str(len(SEEN)))")
    limits = TrialLimits(settings_a_session=3)
    async with in_sandbox(limits) as trials:
        for _ in range(2):
            tried = await trials.run(candidate(text), [(setting(), depth())] * 7)
            assert [one.explanation for one in tried] == ["1", "2", "3", "1", "2", "3", "1"]


async def test_what_a_tool_changes_of_a_setting_is_its_own() -> None:
    body = (
        "context.params['limit'] += 1\ncontext.labels['x'] = 'y'\n"
        "return no_data(f\"{context.params['limit']} {len(context.labels)}\")"
    )
    one = setting()
    async with in_sandbox() as trials:
        tried = await trials.run(candidate(judging(body)), [(one, depth())] * 2)
    assert [each.explanation for each in tried] == ["11 1", "11 1"]
    assert (one.params, one.labels) == ({"limit": 10}, {})


class Hanging:
    def __init__(self) -> None:
        self.began = asyncio.Event()
        self.ended = asyncio.Event()

    async def answer(self, query: Query, *, timeout_s: float) -> Answer:
        self.began.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.ended.set()


async def test_answers_that_never_come() -> None:
    async with in_sandbox(TrialLimits(answers_s=0.05)) as trials:
        tried = await trials.run(candidate(), [(setting(), Hanging()), (setting(), depth())])
    assert [one.failure for one in tried] == ["deadline", ""]


async def test_waiting_for_answers_is_not_the_tools_time() -> None:
    now_s = 0.0

    def answered_late(_query: Query) -> Answer:
        nonlocal now_s
        now_s += 1_000.0
        return ({"value": 12.5},)

    async with in_sandbox(monotonic=lambda: now_s) as trials:
        [tried] = await trials.run(candidate(), [(setting(), Given(answered_late))])
    assert (tried.value, tried.elapsed_ms) == ("true", 0.0)


async def test_cancelled_it_leaves_nothing_behind() -> None:
    hanging = Hanging()
    async with in_sandbox() as trials:
        running = asyncio.create_task(trials.run(candidate(), [(setting(), hanging)]))
        await hanging.began.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert hanging.ended.is_set()
        [tried] = await trials.run(candidate(), [(setting(), depth())])
        assert tried.value == "true"
    left = asyncio.all_tasks() - {asyncio.current_task()}
    assert not left


async def test_calls_of_a_session_do_not_run_out() -> None:
    sandbox = SandboxLimits(workers=1, suspensions=20, memory_bytes=SANDBOX.memory_bytes)
    async with in_sandbox(sandbox=sandbox) as trials:
        tried = await trials.run(candidate(), [(setting(str(n)), depth(n)) for n in range(40)])
    assert [one.subject for one in tried] == [str(n) for n in range(40)]
    assert [one.value for one in tried] == ["false"] * 11 + ["true"] * 29


async def test_two_runs_do_not_meet() -> None:
    sandbox = SandboxLimits(workers=2)
    async with in_sandbox(sandbox=sandbox) as trials:
        settings = [[(setting(f"{run}/{n}"), depth(n)) for n in range(20)] for run in range(4)]
        found = await asyncio.gather(*(trials.run(candidate(), some) for some in settings))
        alone = [await trials.run(candidate(), some) for some in settings]
    assert [list(map(shown, some)) for some in found] == [list(map(shown, some)) for some in alone]
