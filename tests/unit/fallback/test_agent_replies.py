"""Replies that are no code: each ends within the budget, mended by the next or given up."""

from __future__ import annotations

import pytest

from tests.unit.evaluation.virtual_time import on_virtual_time
from tests.unit.fallback.agent_world import (
    PRINTED,
    Reply,
    ScriptedModel,
    ScriptedSandbox,
    World,
    block,
    raised,
    submits,
)
from triage.errors import FallbackFailure
from triage.model.verdict import Truth
from triage.ports import Completion


async def mended(reply: Reply, told: str) -> None:
    """The reply is not run, the model is told why, and its next reply counts."""
    world = World(ScriptedModel(reply, block("await submit()")), ScriptedSandbox(submits()))
    answer = await world.answer()
    assert answer.verdict is not None
    assert world.sandbox.ran == ["await submit()"]
    assert told in world.model.asked[1].messages[-1].content
    assert answer.trace is not None
    assert told in answer.trace.turns[0].observation
    assert answer.trace.turns[0].code == ""


async def given_up(reply: Reply) -> None:
    """Nothing but such replies: the second in a row is the last."""
    world = World(ScriptedModel(reply), ScriptedSandbox(submits()))
    answer = await world.answer()
    assert answer.verdict is None
    assert answer.reason == FallbackFailure.NO_CODE.value
    assert "2 replies in a row" in answer.detail
    assert answer.trace is not None
    assert answer.trace.ended == FallbackFailure.NO_CODE.value
    assert len(answer.trace.turns) == 2
    assert world.sandbox.opened == 0
    assert answer.trace.tokens <= world.limits.tokens
    assert world.counted(FallbackFailure.NO_CODE.value) == 1


@on_virtual_time
async def test_an_empty_reply() -> None:
    await mended("", "Your reply was empty")
    await given_up("")


@on_virtual_time
async def test_a_reply_that_is_no_code() -> None:
    await mended("The rate is surely too high.", "Your reply held no code")
    await given_up("The rate is surely too high.")


@on_virtual_time
async def test_a_reply_of_two_blocks() -> None:
    two = block("submit()") + "\n" + block("submit()")
    await mended(two, "2 code blocks and none of them was run")
    await given_up(two)


@on_virtual_time
async def test_a_reply_that_was_cut_off() -> None:
    cut = Completion("So:\n```python\nawait submit(verdict='tr", "length", 50, 2000)
    await mended(cut, "cut off before its code ended")
    await given_up(cut)


@on_virtual_time
async def test_a_reply_of_ten_megabytes() -> None:
    huge = "```python\n" + "x = 1\n" * (10 * 1024 * 1024 // 6) + "\n```"
    await mended(huge, "far too long")
    await given_up(huge)


@on_virtual_time
async def test_a_reply_of_ten_megabytes_is_neither_kept_nor_said_again() -> None:
    world = World(ScriptedModel("word " * 2_000_000, block()), ScriptedSandbox(submits()))
    answer = await world.answer()
    assert answer.trace is not None
    assert len(answer.trace.turns[0].thought) <= 2_000
    assert sum(len(message.content) for message in world.model.asked[1].messages) < 10_000


@on_virtual_time
async def test_a_reply_in_another_language() -> None:
    await mended("```js\nsubmit({})\n```", "Only Python runs here")
    await mended("```sql\nselect 1\n```", "marked as sql")
    await given_up("```sql\nselect 1\n```")


@on_virtual_time
async def test_a_refusal_in_words() -> None:
    await mended("I'm sorry, but I can't help with that.", "Your reply held no code")
    await given_up("I'm sorry, but I can't help with that.")


@on_virtual_time
async def test_a_reply_that_the_endpoint_withheld() -> None:
    await mended(Completion("", "refused", 50, 0), "withheld by the endpoint's filter")
    await given_up(Completion("", "refused", 50, 0))


@on_virtual_time
async def test_code_over_its_limit() -> None:
    long = block("# " + "x" * 40_000)
    await mended(long, "the limit is 32768")
    await given_up(long)


@on_virtual_time
async def test_code_between_two_such_replies_starts_the_count_again() -> None:
    world = World(
        ScriptedModel("no", block("x = 1"), "no", block("x = 2")),
        ScriptedSandbox(PRINTED, submits()),
    )
    assert (await world.answer()).verdict is not None


@on_virtual_time
async def test_a_verdict_that_is_known_outweighs_replies_without_code() -> None:
    world = World(
        ScriptedModel(block("a"), "no", "no"), ScriptedSandbox(submits("false", then=raised()))
    )
    answer = await world.answer()
    assert answer.verdict is not None
    assert answer.verdict.value is Truth.FALSE
    assert answer.trace is not None
    assert "the one submitted in turn 1" in answer.trace.turns[-1].observation


@pytest.mark.parametrize("finish", ["stop", "tool_calls", "", "🙃"])
def test_the_endpoints_own_word_for_its_end_changes_nothing(finish: str) -> None:
    @on_virtual_time
    async def run() -> None:
        world = World(ScriptedModel(Completion(block(), finish, 1, 1)), ScriptedSandbox(submits()))
        assert (await world.answer()).verdict is not None

    run()
