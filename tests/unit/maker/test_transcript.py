"""What an exchange costs, and whether the next one fits."""

from __future__ import annotations

import pytest

from tests.unit.fallback.agent_world import ScriptedModel
from tests.unit.maker.maker_world import trace
from triage.errors import ModelFailed, ModelFailure
from triage.maker.transcript import REFLECT_TOKENS, ModelLimits, Transcript
from triage.ports import ChatMessage, Completion

LIMITS = ModelLimits(context_tokens=3_000, reply_tokens=1_500, request_timeout_s=7.0)


def transcript(model: ScriptedModel, limits: ModelLimits = LIMITS) -> Transcript:
    return Transcript(model, limits, monotonic=iter(range(100)).__next__)


def prompt(size: int) -> list[ChatMessage]:
    return [ChatMessage("system", "rules"), ChatMessage("user", "x" * size)]


async def test_a_model_that_fails_adds_nothing() -> None:
    asked = transcript(ScriptedModel(ModelFailed(ModelFailure.TIMEOUT, "no answer")))
    with pytest.raises(ModelFailed):
        await asked.ask("make", 0, prompt(10))
    assert (asked.said, asked.tokens) == ([], 0)


@pytest.mark.parametrize("text", ["x" * 8_000, "ä" * 4_000])
def test_bytes_count_until_the_endpoint_has_counted(text: str) -> None:
    messages = [ChatMessage("user", text)]
    assert not transcript(ScriptedModel()).fits(messages)
    assert transcript(ScriptedModel()).fits([ChatMessage("user", text[:2_000])])


async def test_an_endpoint_that_counts_more_makes_less_fit() -> None:
    asked = transcript(ScriptedModel(Completion("so", "stop", 1_200, 10)))
    assert asked.fits(prompt(4_000))
    await asked.ask("make", 0, prompt(2_400))  # two bytes a token
    assert not asked.fits(prompt(4_000))
    assert asked.fits(prompt(2_000))


async def test_an_endpoint_that_counts_nothing_is_no_credit() -> None:
    asked = transcript(ScriptedModel(Completion("so", "stop", -5, -5)))
    await asked.ask("make", 0, prompt(2_400))
    assert asked.tokens == 0
    assert not asked.fits(prompt(8_000))


async def test_a_diagnosis_is_short_and_code_is_not() -> None:
    model = ScriptedModel("so")
    asked = transcript(model)
    for step in ("make", "reflect", "repair"):
        await asked.ask(step, 1, prompt(10))
    assert [one.max_tokens for one in model.asked] == [1_500, REFLECT_TOKENS, 1_500]
    assert {one.timeout_s for one in model.asked} == {7.0}
    assert [one.elapsed_ms for one in asked.said] == [1000.0] * 3


def test_what_an_agent_said_counts() -> None:
    asked = transcript(ScriptedModel())
    asked.add_collected([trace(), trace("other")])
    assert asked.tokens == 2 * 242
    assert [one.step for one in asked.said] == ["collect"] * 4
    assert asked.said[0].reply == "I look first.\n```python\nprint(1)\n```"
