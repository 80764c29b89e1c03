"""What the tests of chat endpoints share."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import Any

import orjson
import pytest

from tests.scripted_server import Script, reply
from triage.adapters.chat import ChatEndpoint
from triage.errors import ModelFailed, ModelFailure
from triage.ports import ChatMessage, ChatModel, Completion

TIMEOUT_S = 30.0
MAX_TOKENS = 100_000  # so many that the reply is bounded by the adapter alone
KEY = "key-of-the-account-7f3a"
PROMPT = (ChatMessage("system", "You answer."), ChatMessage("user", "Is it late?"))


class HandTime:
    """Seconds that pass only when somebody sleeps, or `passes` is called."""

    def __init__(self) -> None:
        self.at = 1_000.0
        self.slept: list[float] = []

    def monotonic(self) -> float:
        return self.at

    def passes(self, seconds: float) -> None:
        self.at += seconds

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.at += seconds


@asynccontextmanager
async def endpoint(
    url: str, time: HandTime | None = None, **settings: Any
) -> AsyncIterator[ChatEndpoint]:
    """Closed at the end. Pauses take no time, and are not jittered."""
    time = time or HandTime()
    settings.setdefault("api_key", KEY)
    model = ChatEndpoint(
        "small",
        f"{url}/v1",
        monotonic=time.monotonic,
        sleep=time.sleep,
        jitter=lambda: 0.0,
        **settings,
    )
    try:
        yield model
    finally:
        await model.close()


def ask(
    model: ChatModel, timeout_s: float = TIMEOUT_S, *, max_tokens: int = MAX_TOKENS
) -> Awaitable[Completion]:
    return model.complete(PROMPT, max_tokens=max_tokens, timeout_s=timeout_s)


async def failure(model: ChatModel, expected: ModelFailure, timeout_s: float = TIMEOUT_S) -> str:
    """The detail of the failure a completion ends with."""
    with pytest.raises(ModelFailed) as caught:
        await ask(model, timeout_s)
    assert caught.value.failure is expected, caught.value
    assert KEY not in str(caught.value)
    assert "\n" not in caught.value.detail
    return caught.value.detail


def completion(content: object = "It is.", finish: object = "stop", **message: object) -> bytes:
    return orjson.dumps(
        {
            "id": "c-1",
            "object": "chat.completion",
            "choices": [
                {
                    "index": 0,
                    "message": {"role": "assistant", "content": content, **message},
                    "finish_reason": finish,
                }
            ],
            "usage": {"prompt_tokens": 21, "completion_tokens": 4, "total_tokens": 25},
        }
    )


GOOD = reply(200, completion())


def error(text: object, **more: object) -> bytes:
    return orjson.dumps({"error": {"message": text, "type": "some_error", **more}})


def refuse(status: int, body: bytes = b"", **headers: str) -> Script:
    """Header names are written with underscores."""
    return reply(status, body, {name.replace("_", "-"): value for name, value in headers.items()})


async def turns(count: int) -> None:
    """Iterations of the loop."""
    for _ in range(count):
        await asyncio.sleep(0)
