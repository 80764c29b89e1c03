"""How many tokens a request will be counted as, before it is made."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from triage.ports import ChatMessage

BYTES_A_TOKEN = 3
"""Of code and figures: a maker's prompt has 3.2 by Qwen2.5's tokenizer. Prose has four, but a first
request that overruns its window is worse than one that does not fill it."""
MESSAGE_TOKENS = 4  # what a chat template puts around each message


class TokenEstimate:
    """Three bytes each until the endpoint counts more of them: then by the most it ever counted."""

    def __init__(self) -> None:
        self._density = 1.0

    def of(self, messages: Sequence[ChatMessage]) -> int:
        return ceil(_plain(messages) * self._density)

    def learn(self, messages: Sequence[ChatMessage], counted: int) -> None:
        """`counted` is what the endpoint says that these messages were."""
        self._density = max(self._density, counted / _plain(messages))


def _plain(messages: Sequence[ChatMessage]) -> int:
    """At least 1."""
    size = sum(len(message.content.encode(errors="replace")) for message in messages)
    return 1 + size // BYTES_A_TOKEN + MESSAGE_TOKENS * len(messages)
