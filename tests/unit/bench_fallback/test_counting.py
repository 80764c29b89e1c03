"""What agents used up, what a model would have taken, and which budgets were broken."""

from __future__ import annotations

import pytest

from bench.fallback.agency import section
from bench.fallback.modelled import ModelSpeed, modelled_s, turns_and_tokens
from bench.fallback.real_model import GRACE_S, broken_budgets
from bench.fallback.walking import Tally
from tests.unit.bench_fallback.decisions import decision, node, trace, turn
from triage.model.decision import Failure
from triage.model.trace import CallRecord

SPEED = ModelSpeed(turn_s=1.0, prompt_tokens_per_s=100.0, generated_tokens_per_s=10.0)


def test_defaults_are_the_measured_ones() -> None:
    assert (ModelSpeed().prompt_tokens_per_s, ModelSpeed().generated_tokens_per_s) == (85.0, 30.0)


def test_without_agents_nothing_is_modelled() -> None:
    walked = decision(node("obs_a"), node("rc_x", layer=1))
    assert modelled_s(walked, 0.25, SPEED) == 0.25
    assert modelled_s(walked, 0.25, SPEED, one_slot=True) == 0.25


def test_the_models_time_is_exchanged_and_the_rest_kept() -> None:
    # One turn: 1 s, 2 s for the prompt, 3 s for the reply. Measured: 100 ms, of them 40 the model.
    asked = trace(turn(prompt=200, reply=30, model_ms=40.0), elapsed_ms=100.0)
    walked = decision(node("obs_a", by_agent=asked))
    assert modelled_s(walked, 0.5, SPEED) == pytest.approx(0.5 - 0.1 + 0.06 + 6.0)


def test_a_layer_takes_as_long_as_its_slowest_or_all_of_them() -> None:
    short = trace(turn(reply=10), elapsed_ms=100.0)  # 2 s
    long = trace(turn(reply=10), turn(reply=20), elapsed_ms=200.0)  # 5 s
    walked = decision(
        node("obs_a", by_agent=short),
        node("obs_b", by_agent=long),
        node("obs_c"),
        node("rc_x", by_agent=short, layer=1),
    )
    assert modelled_s(walked, 1.0, SPEED) == pytest.approx(1.0 + 5.0 + 2.0)
    assert modelled_s(walked, 1.0, SPEED, one_slot=True) == pytest.approx(1.0 + 7.0 + 2.0)
    assert turns_and_tokens([walked, walked]) == (8, 100)


def test_tally_of_nodes_that_had_no_tool() -> None:
    calls = (CallRecord("metrics_samples", "{}", ok=True),)
    answered = trace(turn(prompt=10, reply=3)._replace(calls=calls), elapsed_ms=50.0)
    gave_up = trace(turn(prompt=1), turn(prompt=1), elapsed_ms=70.0, ended="fallback_turns")
    tally = Tally()
    tally.take(
        decision(
            node("obs_a"),
            node("obs_b", by_agent=answered),
            node(
                "rc_x",
                by_agent=gave_up,
                failure=Failure(reason="fallback_turns", detail="-"),
            ),
        )
    )
    found = tally.figures()
    assert (found["fallback_nodes"], found["fallback_verdicts"]) == (2, 1)
    assert (found["llm_turns"], found["llm_turns_most"], found["host_calls"]) == (3, 2, 1)
    assert (found["tokens"], found["prompt_tokens"], found["completion_tokens"]) == (15, 12, 3)
    assert found["fallback_distinct_nodes"] == 2
    assert found["fallback_words"] == {"true": 1, "failed": 1}
    assert found["fallback_ended"] == {"verdict": 1, "fallback_turns": 1}
    assert (found["node_p50_ms"], found["node_p99_ms"]) == (50.0, 70.0)


def test_a_broken_budget_is_told() -> None:
    limits = section(
        "http://localhost/v1",
        "m",
        timeout_s=1.0,
        max_turns=1,
        max_tokens=100,
        max_calls=1,
        max_code_bytes=2,
    )
    within = trace(turn(prompt=60, reply=40)._replace(code="ab"), elapsed_ms=1000.0)
    assert broken_budgets(within, limits) == []
    used = turn(prompt=60, reply=41)._replace(
        code="abc", calls=2 * (CallRecord("f", "{}", ok=True),)
    )
    beyond = trace(used, turn(), elapsed_ms=(1.1 + GRACE_S) * 1000)
    assert [one.split(" ", 1)[1].partition(",")[0] for one in broken_budgets(beyond, limits)] == [
        "turns",
        "tokens",
        "seconds",
        "calls",
        "bytes of code",
    ]
