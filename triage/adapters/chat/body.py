"""What is asked of the endpoint.

No `response_format`: a reply is a short thought and a program in a fence. As a string in JSON that
program would be escaped line by line, which small models get wrong and all pay tokens for, and a
schema could say no more of it than that it is a string. The code is checked by running it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson

from triage.ports import ChatMessage

LIMIT = "max_tokens"
NEWER_LIMIT = "max_completion_tokens"
TEMPERATURE = "temperature"


class Bodies:
    """Makes request bodies, and learns which parameters this model does not take: reasoning models
    refuse any temperature but their own, and know the limit by its newer name only."""

    def __init__(self, model: str, temperature: float) -> None:
        self._model = model
        self._temperature: float | None = temperature
        self._limit = LIMIT

    def encode(self, messages: Sequence[ChatMessage], max_tokens: int) -> bytes:
        form: dict[str, Any] = {
            "model": self._model,
            "messages": [
                {"role": message.role, "content": _encodable(message.content)}
                for message in messages
            ],
            self._limit: max_tokens,
            "stream": False,
        }
        if self._temperature is not None:
            form[TEMPERATURE] = self._temperature
        return orjson.dumps(form)

    def do_without(self, parameter: str) -> None:
        """From now on. Others than those that can be done without change nothing."""
        if parameter == LIMIT:
            self._limit = NEWER_LIMIT
        elif parameter == TEMPERATURE:
            self._temperature = None


def size(messages: Sequence[ChatMessage]) -> int:
    """Bytes of UTF-8."""
    return sum(len(_encodable(message.content).encode()) for message in messages)


def _encodable(text: str) -> str:
    """Half of a surrogate pair, as a careless source may send, has no UTF-8."""
    return text.encode("utf-8", "replace").decode()
