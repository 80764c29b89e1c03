"""What an agent may use up. A budget is one node's, unless it says otherwise."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentLimits:
    """Times are seconds, sizes bytes of UTF-8. `tokens` counts prompts and replies of all turns;
    `context_tokens` is the model's window, which a prompt and its reply share. `repeats` is how
    often the same code, or the same call with the same result, ends the attempt."""

    turns: int = 6
    tokens: int = 40_000
    reply_tokens: int = 4_000
    context_tokens: int = 16_000
    timeout_s: float = 30.0
    request_timeout_s: float = 20.0
    run_s: float = 15.0
    code_bytes: int = 32 * 1024
    observation_bytes: int = 4 * 1024
    calls: int = 100
    repeats: int = 3
