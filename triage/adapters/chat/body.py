"""What is asked of the endpoint.

A `response_format` only where one is configured: as a string in JSON a program is escaped line by
line, which small models get wrong and all pay tokens for, and a schema can say no more of it than
that it is a string. The code is checked by running it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from triage.ports import ChatMessage

LIMIT = "max_tokens"
NEWER_LIMIT = "max_completion_tokens"
TEMPERATURE = "temperature"
RESPONSE_FORMAT = "response_format"


class Bodies:
    """Makes request bodies, and learns which parameters this model does not take: reasoning models
    refuse any temperature but their own, and know the limit by its newer name only. Where an
    endpoint offers it, replies are held to `reply_schema`, a JSON Schema."""

    def __init__(
        self, model: str, temperature: float, reply_schema: Mapping[str, Any] | None = None
    ) -> None:
        self._model = model
        self._reply_schema = reply_schema
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
        if self._reply_schema is not None:
            form[RESPONSE_FORMAT] = {
                "type": "json_schema",
                "json_schema": {"name": "reply", "strict": True, "schema": self._reply_schema},
            }
        return orjson.dumps(form)

    def do_without(self, parameter: str) -> None:
        """From now on. Others than those that can be done without change nothing."""
        if parameter == LIMIT:
            self._limit = NEWER_LIMIT
        elif parameter == TEMPERATURE:
            self._temperature = None
        elif parameter == RESPONSE_FORMAT:
            self._reply_schema = None


def size(messages: Sequence[ChatMessage]) -> int:
    """Bytes of UTF-8."""
    return sum(len(_encodable(message.content).encode()) for message in messages)


def _encodable(text: str) -> str:
    """Half of a surrogate pair, as a careless source may send, has no UTF-8."""
    return text.encode("utf-8", "replace").decode()
