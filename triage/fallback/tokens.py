"""How many tokens a request will be counted as, before it is made."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from triage.ports import ChatMessage

BYTES_A_TOKEN = 4  # of prose
MESSAGE_TOKENS = 4  # what a chat template puts around each message
UNKNOWN = 4 / 3
"""Times the tokens of prose. By Qwen2.5's tokenizer a token is 3.8 bytes of the maker's rules, and
2.9 of a procedure in YAML; a first request that overruns its window is worse than one that leaves
some of it empty."""


class TokenEstimate:
    """Three bytes each until the endpoint has counted: then by the most it ever counted. A count of
    no more than prose has is none: some servers give a guess, some count only what is new to them,
    and for those that give nothing the endpoint's side guesses."""

    def __init__(self) -> None:
        self._counted = 0.0

    def of(self, messages: Sequence[ChatMessage]) -> int:
        return ceil(_prose(messages) * (self._counted or UNKNOWN))

    def learn(self, messages: Sequence[ChatMessage], counted: int) -> None:
        """`counted` is what the endpoint says that these messages were."""
        density = counted / _prose(messages)
        if density > 1:
            self._counted = max(self._counted, density)


def _prose(messages: Sequence[ChatMessage]) -> int:
    """At least 1."""
    size = sum(len(message.content.encode(errors="replace")) for message in messages)
    return 1 + size // BYTES_A_TOKEN + MESSAGE_TOKENS * len(messages)
