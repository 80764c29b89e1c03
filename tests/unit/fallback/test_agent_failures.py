"""What the model, the sandbox and the sources do wrong ends the attempt, never its caller."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from tests.unit.evaluation.virtual_time import on_virtual_time, settled
from tests.unit.fallback.agent_world import (
    Functions,
    ScriptedModel,
    ScriptedSandbox,
    ScriptedSources,
    World,
    block,
    calls,
    hangs,
    never,
    raised,
    submits,
)
from triage.errors import (
    FallbackFailure,
    ModelFailed,
    ModelFailure,
    SandboxFailed,
    SourceFailed,
    SourceFailure,
)
from triage.model.verdict import Truth
from triage.ports import SandboxRun

DOWN = SourceFailed(SourceFailure.CONNECT, "refused")


@pytest.mark.parametrize("failure", list(ModelFailure))
def test_an_endpoint_that_fails(failure: ModelFailure) -> None:
    @on_virtual_time
    async def run() -> None:
        world = World(ScriptedModel(ModelFailed(failure, "as it said")))
        answer = await world.answer()
        assert answer.reason == FallbackFailure.MODEL.value
        assert answer.detail == f"{failure.value}: as it said"
        assert world.sandbox.opened == 0

    run()


@on_virtual_time
async def test_an_endpoint_that_fails_later_leaves_what_was_done_on_record() -> None:
    world = World(ScriptedModel(block(), ModelFailed(ModelFailure.SERVER_ERROR, "500")))
    answer = await world.answer()
    assert answer.reason == FallbackFailure.MODEL.value
    assert answer.trace is not None
    assert len(answer.trace.turns) == 1
    assert world.sandbox.closed == 1


@on_virtual_time
async def test_an_endpoint_that_is_left_alone_is_not_asked() -> None:
    world = World(ScriptedModel(block()))
    world.model.trouble = "failed 5 times in a row"
    answer = await world.answer()
    assert (answer.reason, answer.detail) == ("fallback_model", "failed 5 times in a row")
    assert answer.trace is None
    assert world.model.asked == []
    assert world.counted("fallback_model") == 1


@on_virtual_time
async def test_a_sandbox_that_cannot_run_anything() -> None:
    world = World(ScriptedModel(block()))
    world.sandbox.trouble = "no worker starts"
    answer = await world.answer()
    assert (answer.reason, answer.detail) == ("fallback_off", "no worker starts")
    assert answer.trace is None
    assert world.model.asked == []
    assert world.counted("fallback_off") == 1


@on_virtual_time
async def test_a_sandbox_that_fails() -> None:
    world = World(ScriptedModel(block()), ScriptedSandbox(SandboxFailed("worker died")))
    answer = await world.answer()
    assert (answer.reason, answer.detail) == ("fallback_sandbox", "worker died")
    assert (world.sandbox.opened, world.sandbox.closed) == (1, 1)


@on_virtual_time
async def test_a_sandbox_without_a_worker() -> None:
    async def refuse() -> None:
        raise SandboxFailed("every worker is taken")

    world = World(ScriptedModel(block()))
    world.sandbox.entering = refuse
    answer = await world.answer()
    assert (answer.reason, answer.detail) == ("fallback_sandbox", "every worker is taken")


@on_virtual_time
async def test_with_every_source_unreachable_the_model_is_not_asked() -> None:
    sources = ScriptedSources()
    sources.unlisted["metrics"] = DOWN
    world = World(ScriptedModel(block()), sources=sources)
    answer = await world.answer()
    assert answer.reason == FallbackFailure.SOURCE.value
    assert "'metrics' did not answer" in answer.detail
    assert world.model.asked == []


@on_virtual_time
async def test_no_data_is_refused_while_a_source_is_down() -> None:
    world = World(
        ScriptedModel(block()),
        ScriptedSandbox(calls(then=submits("no_data"))),
        ScriptedSources(metrics=[DOWN], tables=[{"rows": []}]),
    )
    answer = await world.answer()
    assert answer.verdict is None
    assert answer.reason == FallbackFailure.SOURCE.value
    assert len(world.model.asked) == 1, "an outage is no reason to ask the model again"


@on_virtual_time
async def test_no_data_is_refused_when_the_source_fails_after_it_was_said() -> None:
    async def then_asks(functions: Functions) -> SandboxRun:
        await submits("no_data")(functions)
        await functions["metrics_samples"](selector="x")
        return SandboxRun()

    world = World(
        ScriptedModel(block()),
        ScriptedSandbox(then_asks),
        ScriptedSources(metrics=[DOWN], tables=[{"rows": []}]),
    )
    assert (await world.answer()).reason == FallbackFailure.SOURCE.value


@on_virtual_time
async def test_no_data_is_taken_once_the_source_has_answered() -> None:
    async def asks_twice(functions: Functions) -> SandboxRun:
        await functions["metrics_samples"](selector="x")
        await submits("no_data")(functions)
        await functions["metrics_samples"](selector="y")
        await submits("no_data")(functions)
        return SandboxRun()

    world = World(
        ScriptedModel(block()),
        ScriptedSandbox(asks_twice),
        ScriptedSources(metrics=[DOWN, {"series": []}]),
    )
    answer = await world.answer()
    assert answer.verdict is not None
    assert answer.verdict.value is Truth.NO_DATA


@on_virtual_time
async def test_no_data_that_is_known_is_not_taken_when_a_source_failed_since() -> None:
    world = World(
        ScriptedModel(block("a"), block("b")),
        ScriptedSandbox(submits("no_data", then=raised()), calls()),
        ScriptedSources(metrics=[DOWN], tables=[{"rows": []}]),
        turns=2,
    )
    answer = await world.answer()
    assert answer.verdict is None
    assert answer.reason == FallbackFailure.SOURCE.value
    assert "fallback_turns" in answer.detail


@on_virtual_time
async def test_another_verdict_may_rest_on_what_did_answer() -> None:
    world = World(
        ScriptedModel(block()),
        ScriptedSandbox(calls(then=submits("true"))),
        ScriptedSources(metrics=[DOWN], tables=[{"rows": []}]),
    )
    assert (await world.answer()).verdict is not None


@on_virtual_time
async def test_with_every_source_down_the_model_is_not_asked_again() -> None:
    world = World(ScriptedModel(block()), ScriptedSandbox(calls()), ScriptedSources(metrics=[DOWN]))
    answer = await world.answer()
    assert answer.reason == FallbackFailure.SOURCE.value
    assert len(world.model.asked) == 1


@on_virtual_time
async def test_a_budget_that_runs_out_while_a_source_is_down_names_the_source() -> None:
    world = World(
        ScriptedModel(*[block(f"x = {n}") for n in range(9)]),
        ScriptedSandbox(calls()),
        ScriptedSources(metrics=[DOWN], tables=[{"rows": []}]),
    )
    answer = await world.answer()
    assert answer.reason == FallbackFailure.SOURCE.value
    assert "fallback_repeated" in answer.detail


async def _in_listing(world: World) -> None:
    world.sources.listing = never


async def _in_request(world: World) -> None:
    world.model.replies = (hangs,)


async def _in_entering(world: World) -> None:
    world.sandbox.entering = never


async def _in_run(world: World) -> None:
    async def stuck(_: Functions) -> SandboxRun:
        return await never()

    world.sandbox.steps = (stuck,)


async def _in_call(world: World) -> None:
    world.sources.answers = {"metrics": [never]}
    world.sandbox.steps = (calls(),)


async def _in_second_request(world: World) -> None:
    world.model.replies = (block(), hangs)


@pytest.mark.parametrize(
    "place", [_in_listing, _in_request, _in_entering, _in_run, _in_call, _in_second_request]
)
def test_cancelled_it_leaves_nothing_running(place: Callable[[World], object]) -> None:
    @on_virtual_time
    async def run() -> None:
        world = World(ScriptedModel(block()))
        await place(world)  # type: ignore[misc]  # each is a coroutine function
        attempt = asyncio.create_task(world.answer())
        await settled()
        assert not attempt.done()
        attempt.cancel()
        with pytest.raises(asyncio.CancelledError):
            await attempt
        assert world.sandbox.opened == world.sandbox.closed
        assert world.model.under_way == 0

    run()


@on_virtual_time
async def test_a_fault_of_our_own_is_not_hidden_and_the_session_is_closed() -> None:
    async def broken(_: Functions) -> SandboxRun:
        raise RuntimeError("a bug")

    world = World(ScriptedModel(block()), ScriptedSandbox(broken))
    with pytest.raises(RuntimeError, match="a bug"):
        await world.answer()
    assert (world.sandbox.opened, world.sandbox.closed) == (1, 1)
