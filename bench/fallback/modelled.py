"""What a decision would have taken on a model of a stated speed.

A scripted endpoint answers at once, so a latency measured with it is that of everything but the
model. The model's part is put back by arithmetic, from the turns and tokens that were measured; it
is never to be shown as if it had been measured.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from triage.model.decision import Decision
from triage.model.trace import Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSpeed:
    """`turn_s` is what a request takes before its first token is read, such as a network's round
    trip. Tokens are per second of one request. The defaults were measured of a code model of 1.5
    billion parameters on two cores; nothing was measured for `turn_s`."""

    turn_s: float = 0.0
    prompt_tokens_per_s: float = 85.0
    generated_tokens_per_s: float = 30.0

    def seconds(self, trace: Trace) -> float:
        return sum(
            self.turn_s
            + turn.prompt_tokens / self.prompt_tokens_per_s
            + turn.completion_tokens / self.generated_tokens_per_s
            for turn in trace.turns
        )


def modelled_s(
    decision: Decision, measured_s: float, speed: ModelSpeed, *, one_slot: bool = False
) -> float:
    """The measured latency with the model's time in each layer exchanged.

    The nodes of a layer ask at once, and the layer takes as long as its slowest node; with
    `one_slot` the model answers one request at a time, and their times in a layer add up.
    """
    seconds = measured_s
    for traces in _layers(decision).values():
        seconds -= max(trace.elapsed_ms / 1000 for trace in traces)
        if one_slot:
            seconds += sum(map(speed.seconds, traces)) + max(map(_beside_s, traces))
        else:
            seconds += max(_beside_s(trace) + speed.seconds(trace) for trace in traces)
    return seconds


def _layers(decision: Decision) -> Mapping[int, list[Trace]]:
    layers: dict[int, list[Trace]] = {}
    for result in decision.nodes:
        if result.trace is not None:
            layers.setdefault(result.layer, []).append(result.trace)
    return layers


def _beside_s(trace: Trace) -> float:
    """What the attempt took beside the model."""
    return (trace.elapsed_ms - sum(turn.model_ms for turn in trace.turns)) / 1000


def turns_and_tokens(decisions: Iterable[Decision]) -> tuple[int, int]:
    """Of all fallbacks together."""
    traces = [
        result.trace
        for decision in decisions
        for result in decision.nodes
        if result.trace is not None
    ]
    return sum(len(trace.turns) for trace in traces), sum(trace.tokens for trace in traces)
