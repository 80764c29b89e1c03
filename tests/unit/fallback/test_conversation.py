"""Everything is said while it fits, and the oldest is said shorter when it does not."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import orjson

from tests.unit.fallback.phrases import PlainPhrases
from triage.fallback.conversation import Conversation
from triage.fallback.observation import Observation
from triage.ports import ChatMessage

OPENING = [ChatMessage("system", "rules"), ChatMessage("user", "question")]


def conversation(turns: int, *, as_json: bool = False) -> Conversation:
    talk = Conversation(OPENING, PlainPhrases(), as_json=as_json)
    for turn in range(1, turns + 1):
        code = f"code_{turn}\n" + "c" * 100
        talk.add(f"thought {turn}", code, Observation(f"seen {turn} " + "o" * 200, f"sum {turn}"))
    return talk


def within(limit: int) -> Callable[[Sequence[ChatMessage]], bool]:
    return lambda messages: sum(len(message.content) for message in messages) <= limit


def text(messages: Sequence[ChatMessage]) -> str:
    return "\n".join(message.content for message in messages)


def test_all_of_it_is_said_while_it_fits() -> None:
    messages = conversation(2).messages(within(10_000))
    assert [message.role for message in messages] == [
        "system", "user", "assistant", "user", "assistant", "user",
    ]  # fmt: skip
    assert "thought 1\n```python\ncode_1" in messages[2].content
    assert messages[3].content.startswith("seen 1")


def test_the_oldest_observation_goes_first() -> None:
    talk = conversation(3)
    size = len(text(talk.messages(within(10_000))))
    said = text(talk.messages(within(size - 100)))
    assert "seen 1" not in said
    assert "~~~\nsum 1\n~~~]" in said
    assert "code_1" in said
    assert "seen 2" in said


def test_code_goes_when_observations_are_not_enough() -> None:
    said = text(conversation(3).messages(within(600)))
    assert "seen 2" not in said
    assert "code_1" not in said
    assert "[2 lines of code, left out]" in said
    assert "code_3" in said
    assert "seen 3" in said


def test_the_opening_and_the_latest_turn_stay_whatever_the_window() -> None:
    messages = conversation(3).messages(within(0))
    assert messages[:2] == OPENING
    assert "code_3" in messages[-2].content
    assert messages[-1].content.startswith("seen 3")
    assert "code_2" not in text(messages)
    assert len(messages) == 8


def test_what_was_condensed_stays_so() -> None:
    talk = conversation(3)
    talk.messages(within(0))
    assert "code_1" not in text(talk.messages(within(10_000)))


def test_a_reply_without_code_is_said_again_as_it_was() -> None:
    talk = Conversation(OPENING, PlainPhrases())
    talk.add("no idea", "", Observation("no code", "no code"))
    talk.add("", "", Observation("empty", "empty"))
    messages = talk.messages(within(10_000))
    assert messages[2] == ChatMessage("assistant", "no idea")
    assert messages[4].content, "endpoints refuse an empty message"


def test_replies_are_said_again_in_the_form_they_are_held_to() -> None:
    talk = conversation(2, as_json=True)
    whole = talk.messages(within(10_000))
    assert orjson.loads(whole[2].content) == {
        "thought": "thought 1",
        "code": "code_1\n" + "c" * 100,
    }
    condensed = talk.messages(within(0))
    assert orjson.loads(condensed[2].content)["code"] == "[2 lines of code, left out]"
    talk.add("", "", Observation("your reply was empty", "empty"))
    assert orjson.loads(talk.messages(within(0))[-2].content)["thought"]
