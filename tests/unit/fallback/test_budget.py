"""Budgets add up, and a request that cannot fit is not made."""

from __future__ import annotations

from typing import Any

import pytest

from triage.fallback.budget import LEAST_REPLY_TOKENS, Budget
from triage.fallback.limits import AgentLimits
from triage.ports import ChatMessage, Completion


class Hand:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def budget(given_s: float = 60.0, **limits: Any) -> tuple[Budget, Hand]:
    hand = Hand()
    return Budget(AgentLimits(**limits), timeout_s=given_s, monotonic=hand), hand


def messages(size: int) -> list[ChatMessage]:
    return [ChatMessage("user", "x" * size)]


def completion(prompt_tokens: int, completion_tokens: int = 0) -> Completion:
    return Completion("", "stop", prompt_tokens, completion_tokens)


@pytest.mark.parametrize(("given_s", "left_s"), [(60.0, 30.0), (5.0, 5.0), (0.0, 0.0)])
def test_the_time_is_the_shorter_of_the_two(given_s: float, left_s: float) -> None:
    mine, _ = budget(given_s, timeout_s=30.0)
    assert mine.left_s == left_s


def test_time_that_is_over_is_not_less_than_none() -> None:
    mine, hand = budget()
    hand.now += 100
    assert (mine.left_s, mine.elapsed_s) == (0.0, 100.0)


def test_a_token_is_three_bytes_until_the_endpoint_has_counted() -> None:
    mine, _ = budget()
    before = mine.estimate(messages(4000))
    assert 1333 <= before <= 1343
    mine.charge(messages(4000), completion(1000))
    assert mine.estimate(messages(4000)) == before, "a guess, or not all of it"
    mine.charge(messages(4000), completion(1100))
    assert mine.estimate(messages(4000)) == 1100
    mine.charge(messages(4000), completion(2 * before))
    assert mine.estimate(messages(4000)) == 2 * before
    mine.charge(messages(4000), completion(1100))
    assert mine.estimate(messages(4000)) == 2 * before, "the most it ever counted holds"


def test_what_is_charged_is_the_endpoints_count() -> None:
    mine, _ = budget(turns=3, tokens=1000)
    mine.charge(messages(8), completion(300, 100))
    assert (mine.tokens, mine.turns, mine.turns_left, mine.window) == (400, 1, 2, 600)


def test_counts_below_nothing_give_nothing_back() -> None:
    mine, _ = budget()
    mine.charge(messages(8), completion(-5000, -5000))
    assert mine.tokens == 0


def test_a_reply_shrinks_to_what_is_left() -> None:
    mine, _ = budget(tokens=3000, reply_tokens=2000)
    assert mine.reply_tokens(messages(400)) == 2000
    mine.charge(messages(400), completion(100, 2000))
    assert mine.reply_tokens(messages(400)) == 900 - mine.estimate(messages(400))
    assert not mine.has_room(messages(400))


def test_no_request_that_leaves_no_room_for_an_answer() -> None:
    mine, _ = budget(tokens=1000, reply_tokens=500)
    size = 3 * (1000 - LEAST_REPLY_TOKENS)
    assert mine.reply_tokens(messages(size - 100)) >= LEAST_REPLY_TOKENS
    assert mine.reply_tokens(messages(size)) == 0


def test_the_window_of_the_model_bounds_a_request_too() -> None:
    mine, _ = budget(tokens=100_000, context_tokens=3000, reply_tokens=2000)
    assert mine.has_room(messages(2900))
    assert not mine.has_room(messages(3100))
    assert mine.reply_tokens(messages(8000)) < 1000


def test_text_without_bytes_is_estimated_all_the_same() -> None:
    mine, _ = budget()
    assert mine.estimate([ChatMessage("user", "\ud800" * 40)]) > 10
