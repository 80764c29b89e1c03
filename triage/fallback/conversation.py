"""What is sent to the model: the opening, then replies and observations, as much as fits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from triage.fallback.observation import Observation, Phrases
from triage.fallback.reply import structured
from triage.fallback.template import fenced
from triage.ports import ChatMessage

SILENCE = "…"
"""In place of a reply that was empty: some endpoints refuse an empty message."""


@dataclass(slots=True)
class _Exchange:
    """A turn as it is said again."""

    thought: str
    code: str
    observation: Observation
    keep_code: bool = True
    keep_observation: bool = True


class Conversation:
    """With `as_json` replies are said again in the form that the endpoint holds them to."""

    def __init__(
        self, opening: Sequence[ChatMessage], phrases: Phrases, *, as_json: bool = False
    ) -> None:
        self._opening = tuple(opening)
        self._phrases = phrases
        self._as_json = as_json
        self._exchanges: list[_Exchange] = []

    def add(self, thought: str, code: str, observation: Observation) -> None:
        self._exchanges.append(_Exchange(thought, code, observation))

    def messages(self, fits: Callable[[Sequence[ChatMessage]], bool]) -> list[ChatMessage]:
        """The whole of it when that `fits`; else older turns are condensed for good, one at a
        time from the oldest, until it does or there is nothing left to condense. The latest turn
        stays as it is."""
        messages = self._messages()
        steps = self._condense()
        while not fits(messages) and next(steps, False):
            messages = self._messages()
        return messages

    def _condense(self) -> Iterator[bool]:
        """Observations first: they are the bulk, and the code says what was tried."""
        older = self._exchanges[:-1]
        for exchange in older:
            if exchange.keep_observation:
                exchange.keep_observation = False
                yield True
        for exchange in older:
            if exchange.keep_code:
                exchange.keep_code = False
                yield True

    def _messages(self) -> list[ChatMessage]:
        messages = list(self._opening)
        for exchange in self._exchanges:
            messages.append(ChatMessage("assistant", self._said(exchange)))
            messages.append(ChatMessage("user", self._told(exchange)))
        return messages

    def _said(self, exchange: _Exchange) -> str:
        if self._as_json:
            kept = exchange.code if exchange.keep_code else self._condensed(exchange)
            return structured(exchange.thought or SILENCE, kept)
        if not exchange.code:
            return exchange.thought or SILENCE
        if exchange.keep_code:
            return f"{exchange.thought}\n```python\n{exchange.code}\n```"
        return f"{exchange.thought}\n{self._condensed(exchange)}"

    def _condensed(self, exchange: _Exchange) -> str:
        lines = str(exchange.code.count("\n") + 1)
        return self._phrases.phrase("condensed_code", lines=lines)

    def _told(self, exchange: _Exchange) -> str:
        if exchange.keep_observation:
            return exchange.observation.text
        summary = fenced(exchange.observation.summary)
        return self._phrases.phrase("condensed_observation", summary=summary)
