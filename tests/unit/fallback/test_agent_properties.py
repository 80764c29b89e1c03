"""Whatever replies and runs come, in whatever order, an answer comes within the budgets."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.evaluation.virtual_time import VirtualLoop
from tests.unit.fallback.agent_world import (
    Functions,
    ScriptedModel,
    ScriptedSandbox,
    ScriptedSources,
    Step,
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
from triage.errors import (
    FallbackFailure,
    ModelFailed,
    ModelFailure,
    SandboxFailed,
    SourceFailed,
    SourceFailure,
    ToolFailed,
    ToolFailure,
)
from triage.model.trace import VERDICT
from triage.model.verdict import Truth
from triage.ports import Completion, FallbackAnswer, SandboxError, SandboxRun


async def stuck(_: Functions) -> SandboxRun:
    return await never()


def slow(seconds: float) -> Step:
    async def step(_: Functions) -> SandboxRun:
        await passes(seconds)
        return SandboxRun("late")

    return step


TEXTS = st.one_of(
    st.sampled_from(["", "no", "```js\nx\n```", block() + block(), "submit()", "```python\nx ="]),
    st.builds(block, st.sampled_from(["x = 1", "x = 2", "y", "# " + "z" * 3000])),
    st.text(max_size=50),
)
REPLIES = st.one_of(
    TEXTS,
    st.builds(
        Completion,
        TEXTS,
        st.sampled_from(["stop", "length", "refused"]),
        st.integers(0, 60),
        st.integers(0, 120),
    ),
    st.sampled_from([hangs, times_out]),
    st.sampled_from(list(ModelFailure)).map(lambda failure: ModelFailed(failure, "x")),
)
RUNS = st.one_of(
    st.sampled_from(["true", "false", "no_data", "maybe"]).map(submits),
    st.sampled_from(["true", "no_data"]).map(lambda word: submits(word, then=raised())),
    st.sampled_from([calls(), calls(then=submits("no_data")), stuck, slow(0.5), slow(7.0)]),
    st.builds(
        SandboxRun,
        st.text(max_size=200) | st.just("x" * 5000),
        st.none()
        | st.builds(
            SandboxError,
            st.sampled_from(["syntax", "type", "raised", "limit", "crash", "odd"]),
            st.text(max_size=50) | st.just("NameError: name 'foo' is not defined"),
        ),
    ),
    st.just(SandboxFailed("no worker")),
)
ANSWERS = st.sampled_from(
    [
        {"series": []},
        {"series": [1]},
        SourceFailed(SourceFailure.TIMEOUT, "slow"),
        ToolFailed(ToolFailure.QUERY_REJECTED, "no"),
    ]
)


@settings(max_examples=300, deadline=None)
@given(
    replies=st.lists(REPLIES, min_size=1, max_size=8),
    runs=st.lists(RUNS, min_size=1, max_size=8),
    answers=st.lists(ANSWERS, min_size=1, max_size=4),
    turns=st.integers(1, 8),
    tokens=st.integers(200, 4000),
    timeout_s=st.sampled_from([0.0, 1.0, 5.0, 40.0]),
    takes_s=st.sampled_from([0.0, 0.3, 3.0]),
)
def test_an_answer_comes_within_the_budgets(
    replies: list[Any],
    runs: list[Any],
    answers: list[Any],
    turns: int,
    tokens: int,
    timeout_s: float,
    takes_s: float,
) -> None:
    async def main() -> tuple[World, FallbackAnswer, float]:
        world = World(
            ScriptedModel(*replies, takes_s=takes_s),
            ScriptedSandbox(*runs),
            ScriptedSources(metrics=answers, tables=[{"rows": []}]),
            turns=turns,
            tokens=tokens,
            reply_tokens=150,
            context_tokens=1000,
            request_timeout_s=4.0,
            run_s=2.0,
            observation_bytes=800,
        )
        began = world.clock.monotonic()
        answer = await world.answer(timeout_s=timeout_s)
        took = world.clock.monotonic() - began
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left
        return world, answer, took

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        world, answer, took = runner.run(main())
    assert took <= timeout_s + 1e-6
    assert world.sandbox.opened == world.sandbox.closed
    assert answer.trace is not None
    assert len(world.model.asked) <= turns
    assert len(answer.trace.turns) <= turns
    assert answer.trace.tokens <= tokens
    assert all(len(turn.observation.encode()) <= 1200 for turn in answer.trace.turns)
    if answer.verdict is None:
        assert answer.reason in set(FallbackFailure)
        assert answer.trace.ended == answer.reason
        assert answer.detail
    else:
        assert type(answer.verdict.value) is Truth
        assert answer.trace.ended == VERDICT
