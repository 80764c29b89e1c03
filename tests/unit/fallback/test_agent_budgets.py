"""Every budget ends the attempt by itself, with what is known."""

from __future__ import annotations

import time

import pytest

from tests.unit.evaluation.virtual_time import on_virtual_time
from tests.unit.fallback.agent_world import (
    PRINTED,
    Functions,
    ScriptedModel,
    ScriptedSandbox,
    ScriptedSources,
    World,
    block,
    calls,
    hangs,
    never,
    passes,
    raised,
    submits,
    times_out,
)
from triage.errors import FallbackFailure, ModelFailed, ModelFailure, SandboxFailed
from triage.model.verdict import Truth
from triage.ports import Completion, FallbackAnswer, SandboxRun


def codes(count: int) -> list[str]:
    """Replies of which no two are the same."""
    return [block(f"x = {number}") for number in range(count)]


def ended(answer: FallbackAnswer, failure: FallbackFailure) -> None:
    assert answer.verdict is None
    assert answer.reason == failure.value, answer.detail
    assert answer.detail
    assert "\n" not in answer.detail
    assert answer.trace is not None
    assert answer.trace.ended == failure.value


@pytest.mark.parametrize("turns", [1, 2, 6])
def test_turns(turns: int) -> None:
    @on_virtual_time
    async def run() -> None:
        world = World(ScriptedModel(*codes(20)), turns=turns)
        answer = await world.answer()
        ended(answer, FallbackFailure.TURNS)
        assert answer.trace is not None
        assert len(answer.trace.turns) == len(world.model.asked) == turns
        assert "42" in answer.trace.turns[-1].observation, "the record has what came of the last"
        assert world.counted(FallbackFailure.TURNS.value) == 1

    run()


@on_virtual_time
async def test_tokens_end_the_attempt_before_a_request_that_does_not_fit() -> None:
    replies = [Completion(code, "stop", 400, 300) for code in codes(20)]
    world = World(
        ScriptedModel(*replies), turns=20, tokens=1900, reply_tokens=500, opening="x" * 1500
    )
    answer = await world.answer()
    ended(answer, FallbackFailure.TOKENS)
    assert "1400 tokens are used" in answer.detail
    assert answer.trace is not None
    assert answer.trace.tokens == 1400
    assert len(world.model.asked) == 2


@on_virtual_time
async def test_the_last_reply_is_allowed_what_is_left() -> None:
    replies = [Completion(code, "stop", 100, 700) for code in codes(20)]
    world = World(ScriptedModel(*replies), turns=20, tokens=2000, reply_tokens=1000)
    await world.answer()
    assert [asked.max_tokens for asked in world.model.asked][:1] == [1000]
    assert 128 <= world.model.asked[-1].max_tokens < 1000


@on_virtual_time
async def test_an_opening_that_does_not_fit_is_never_sent() -> None:
    world = World(ScriptedModel(block()), opening="x" * 100_000)
    ended(await world.answer(), FallbackFailure.TOKENS)
    assert world.model.asked == []


@on_virtual_time
async def test_an_endpoint_that_counts_more_than_four_bytes_a_token_is_believed() -> None:
    replies = [Completion(code, "stop", 9000, 100) for code in codes(20)]
    world = World(ScriptedModel(*replies), turns=20, tokens=20_000, opening="x" * 4000)
    ended(await world.answer(), FallbackFailure.TOKENS)
    assert len(world.model.asked) == 2, "a third prompt of 9000 tokens is more than is left"


@on_virtual_time
async def test_an_endpoint_that_exceeds_what_it_was_allowed_is_asked_no_more() -> None:
    world = World(ScriptedModel(Completion(block(), "stop", 100, 1_000_000)))
    ended(await world.answer(), FallbackFailure.TOKENS)
    assert len(world.model.asked) == 1


@on_virtual_time
async def test_an_endpoint_that_never_answers() -> None:
    for reply, limit_s in ((times_out, 20.0), (hangs, 21.0)):
        world = World(ScriptedModel(reply), timeout_s=30.0, request_timeout_s=20.0)
        began = world.clock.monotonic()
        answer = await world.answer()
        ended(answer, FallbackFailure.MODEL)
        assert world.clock.monotonic() - began == pytest.approx(limit_s)
        assert world.model.under_way == 0
        assert world.sandbox.opened == 0


@pytest.mark.parametrize(("given_s", "own_s"), [(5.0, 30.0), (60.0, 5.0)])
def test_an_endpoint_that_never_answers_in_the_time_that_is_left(
    given_s: float, own_s: float
) -> None:
    @on_virtual_time
    async def run() -> None:
        for reply in (times_out, hangs):
            world = World(ScriptedModel(reply), timeout_s=own_s, request_timeout_s=20.0)
            began = world.clock.monotonic()
            answer = await world.answer(timeout_s=given_s)
            ended(answer, FallbackFailure.TIMEOUT)
            assert world.clock.monotonic() - began == pytest.approx(5.0)
            assert world.model.asked[0].timeout_s == 5.0

    run()


@pytest.mark.both_loops
async def test_time_that_is_over_is_over_whatever_the_loops_clock() -> None:
    """uvloop's ticks in milliseconds, so that its timers and our clock disagree about the end."""
    for reply in (hangs, times_out):
        world = World(ScriptedModel(reply), monotonic=time.monotonic)
        ended(await world.answer(timeout_s=0.003), FallbackFailure.TIMEOUT)


@on_virtual_time
async def test_each_request_and_run_gets_what_is_left() -> None:
    async def slow(_: Functions) -> SandboxRun:
        await passes(1.0)
        return PRINTED

    world = World(
        ScriptedModel(*codes(9), takes_s=4.0),
        ScriptedSandbox(slow),
        timeout_s=12.0,
        request_timeout_s=5.0,
        run_s=2.0,
    )
    ended(await world.answer(), FallbackFailure.TIMEOUT)
    assert [asked.timeout_s for asked in world.model.asked] == pytest.approx([5.0, 5.0, 2.0])
    assert world.sandbox.timeouts == pytest.approx([2.0, 2.0])
    assert world.clock.monotonic() == pytest.approx(12.0)


@on_virtual_time
async def test_a_run_gets_no_more_than_is_left() -> None:
    world = World(
        ScriptedModel(block(), takes_s=4.0), ScriptedSandbox(submits()), timeout_s=5.0, run_s=3.0
    )
    assert (await world.answer()).verdict is not None
    assert world.sandbox.timeouts == pytest.approx([1.0])


@on_virtual_time
async def test_nothing_is_begun_when_the_time_is_over() -> None:
    """By the clock that budgets are measured by, whatever the timers of the loop have made of
    it."""
    now = [0.0]

    async def long(_: Functions) -> SandboxRun:
        now[0] += 100.0
        return PRINTED

    world = World(ScriptedModel(block()), ScriptedSandbox(long), monotonic=lambda: now[0])
    ended(await world.answer(), FallbackFailure.TIMEOUT)
    assert len(world.model.asked) == 1


@on_virtual_time
async def test_no_time_at_all() -> None:
    world = World(ScriptedModel(block()))
    ended(await world.answer(timeout_s=0.0), FallbackFailure.TIMEOUT)
    assert world.model.asked == []


@on_virtual_time
async def test_a_source_that_never_lists_its_tools() -> None:
    sources = ScriptedSources()
    sources.listing = never
    world = World(ScriptedModel(block()), sources=sources, timeout_s=3.0)
    answer = await world.answer()
    assert answer.verdict is None
    assert world.clock.monotonic() <= 3.0
    assert world.model.asked == []


@on_virtual_time
async def test_a_sandbox_that_never_has_a_worker() -> None:
    sandbox = ScriptedSandbox(submits())
    sandbox.entering = never
    world = World(ScriptedModel(block()), sandbox, timeout_s=3.0)
    ended(await world.answer(), FallbackFailure.TIMEOUT)
    assert world.clock.monotonic() == pytest.approx(3.0)


@on_virtual_time
async def test_a_run_that_never_ends_is_the_sandboxs_failure() -> None:
    async def stuck(_: Functions) -> SandboxRun:
        return await never()

    world = World(ScriptedModel(block()), ScriptedSandbox(stuck), timeout_s=30.0, run_s=5.0)
    ended(await world.answer(), FallbackFailure.SANDBOX)
    assert world.clock.monotonic() == pytest.approx(6.0)
    assert (world.sandbox.opened, world.sandbox.closed) == (1, 1)


@on_virtual_time
async def test_time_that_is_over_in_a_run_keeps_its_calls_on_record() -> None:
    async def then_stuck(_: Functions) -> SandboxRun:
        return await never()

    world = World(ScriptedModel(block()), ScriptedSandbox(calls(then=then_stuck)), timeout_s=3.0)
    answer = await world.answer()
    ended(answer, FallbackFailure.TIMEOUT)
    assert answer.trace is not None
    assert [call.function for call in answer.trace.turns[0].calls] == ["metrics_samples"]
    assert answer.trace.turns[0].sandbox_ms == pytest.approx(3000.0)


@on_virtual_time
async def test_a_verdict_submitted_in_a_run_that_time_cut_off_is_known() -> None:
    async def then_stuck(functions: Functions) -> SandboxRun:
        await submits("true")(functions)
        return await never()

    world = World(ScriptedModel(block()), ScriptedSandbox(then_stuck), timeout_s=3.0)
    answer = await world.answer()
    assert answer.verdict is not None
    assert answer.trace is not None
    assert "the time was over" in answer.trace.turns[-1].observation
    assert "submitted in turn 1" in answer.trace.turns[-1].observation
    assert world.counted("true") == 1


@on_virtual_time
async def test_what_is_known_is_taken_when_the_turns_are_used_up() -> None:
    world = World(
        ScriptedModel(*codes(3)),
        ScriptedSandbox(submits("true", then=raised()), submits("false", then=raised()), raised()),
        turns=3,
    )
    answer = await world.answer()
    assert answer.verdict is not None
    assert answer.verdict.value is Truth.FALSE, "the latest"
    assert answer.reason == ""
    assert answer.trace is not None
    assert answer.trace.ended == "verdict"
    assert "submitted in turn 2" in answer.trace.turns[-1].observation


@on_virtual_time
async def test_what_is_known_is_not_taken_when_something_broke() -> None:
    for replies, steps in (
        ([block(), ModelFailed(ModelFailure.CONNECT, "gone")], [submits(then=raised())]),
        (codes(2), [submits(then=raised()), SandboxFailed("no worker")]),
    ):
        world = World(ScriptedModel(*replies), ScriptedSandbox(*steps))
        assert (await world.answer()).verdict is None


@on_virtual_time
async def test_the_same_code_is_called_out_and_the_third_time_ends_it() -> None:
    world = World(ScriptedModel(block("print(1)")))
    answer = await world.answer()
    ended(answer, FallbackFailure.REPEATED)
    assert answer.trace is not None
    observations = [turn.observation for turn in answer.trace.turns]
    assert len(observations) == 3
    assert "this very code" not in observations[0]
    assert "this very code" in observations[1]
    assert len(world.sandbox.ran) == 2, "the third is not run"


@on_virtual_time
async def test_the_same_call_with_the_same_result_is_called_out_and_the_third_time_ends_it() -> (
    None
):
    world = World(ScriptedModel(*codes(9)), ScriptedSandbox(calls()), turns=9)
    answer = await world.answer()
    ended(answer, FallbackFailure.REPEATED)
    assert answer.trace is not None
    observations = [turn.observation for turn in answer.trace.turns]
    assert len(observations) == 3
    assert "same arguments" not in observations[0]
    assert "metrics_samples was called with the same arguments" in observations[1]


@on_virtual_time
async def test_a_call_with_other_results_is_no_repeat() -> None:
    world = World(
        ScriptedModel(*codes(4)),
        ScriptedSandbox(calls(), calls(), calls(), calls(then=submits())),
        ScriptedSources(metrics=[{"n": 1}, {"n": 2}, {"n": 3}, {"n": 4}]),
    )
    assert (await world.answer()).verdict is not None


@on_virtual_time
async def test_a_verdict_outweighs_a_third_repeat() -> None:
    world = World(
        ScriptedModel(*codes(3)), ScriptedSandbox(calls(), calls(), calls(then=submits()))
    )
    assert (await world.answer()).verdict is not None


@on_virtual_time
async def test_observations_are_within_their_limit() -> None:
    world = World(
        ScriptedModel(*codes(9)),
        ScriptedSandbox(SandboxRun("x" * 60_000)),
        observation_bytes=1500,
    )
    answer = await world.answer()
    assert answer.trace is not None
    assert all(len(turn.observation.encode()) <= 1500 for turn in answer.trace.turns)
    assert "bytes left out" in answer.trace.turns[0].observation
