"""What a fallback did for one node, kept with the decision."""

from __future__ import annotations

from typing import Any, NamedTuple

VERDICT = "verdict"
"""How an attempt ended that gave one; else it is a value of errors.FallbackFailure."""


class CallRecord(NamedTuple):
    """One host function that the agent's code called. `arguments` is JSON as sent, masked as the
    model may see it; `error` is empty when `ok`. `answer_sha256` names the evidence, empty when
    nothing was asked or answered."""

    function: str
    arguments: str
    ok: bool
    error: str = ""
    answer_bytes: int = 0
    answer_sha256: str = ""
    elapsed_ms: float = 0.0


class Turn(NamedTuple):
    """One reply of the model and what came of it. `observation` is what the model was told next,
    or would have been had the attempt gone on; empty after a verdict. Tokens are as the endpoint
    counted them."""

    thought: str
    code: str
    calls: tuple[CallRecord, ...] = ()
    observation: str = ""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    model_ms: float = 0.0
    sandbox_ms: float = 0.0


class Trace(NamedTuple):
    """One attempt of the fallback at one node. `reason` is the tool's failure that led to it,
    `ended` is VERDICT or why there is none."""

    model: str
    prompt_version: str
    prompt_sha256: str
    reason: str
    ended: str
    turns: tuple[Turn, ...] = ()
    elapsed_ms: float = 0.0

    @property
    def tokens(self) -> int:
        return sum(turn.prompt_tokens + turn.completion_tokens for turn in self.turns)


def trace_document(trace: Trace) -> dict[str, Any]:
    """As JSON types, stable across versions: it is stored with decisions."""
    return {
        "model": trace.model,
        "prompt_version": trace.prompt_version,
        "prompt_sha256": trace.prompt_sha256,
        "reason": trace.reason,
        "ended": trace.ended,
        "tokens": trace.tokens,
        "elapsed_ms": round(trace.elapsed_ms, 3),
        "turns": [
            {
                "thought": turn.thought,
                "code": turn.code,
                "calls": [
                    {**call._asdict(), "elapsed_ms": round(call.elapsed_ms, 3)}
                    for call in turn.calls
                ],
                "observation": turn.observation,
                "prompt_tokens": turn.prompt_tokens,
                "completion_tokens": turn.completion_tokens,
                "model_ms": round(turn.model_ms, 3),
                "sandbox_ms": round(turn.sandbox_ms, 3),
            }
            for turn in trace.turns
        ],
    }
