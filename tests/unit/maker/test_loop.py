"""The rounds of a making: what goes wrong in them, and what comes of it."""

from __future__ import annotations

import asyncio

import pytest

from tests.unit.fallback.agent_world import ScriptedModel, block
from tests.unit.maker.maker_world import (
    HELDOUT,
    TEXT,
    TRAIN,
    FakeCollector,
    FakeGates,
    FakeTrials,
    HangingTrials,
    case,
    maker,
    request,
    said,
    source,
    step,
    task,
    tool,
    trace,
)
from triage.errors import ModelFailed, ModelFailure, SandboxFailed, SourceFailed, SourceFailure
from triage.maker.loop import MOST_REPEATS, best_of
from triage.maker.transcript import ModelLimits
from triage.model.canonical import sha256_hex
from triage.ports import Completion

DOWN = ModelFailed(ModelFailure.CONNECT, "nobody listens at 127.0.0.1")


# --- what does not come to a candidate ----------------------------------------------------------


async def test_a_model_that_is_down_ends_it_with_a_line() -> None:
    made = await maker(ScriptedModel(DOWN)).make(request())
    assert made.best is None
    assert made.rounds == ()
    assert made.gates == ()
    assert made.problem == "model_connect: nobody listens at 127.0.0.1"
    assert made.unavailable


async def test_a_model_that_dies_later_leaves_the_best_so_far() -> None:
    gates = FakeGates()
    model = ScriptedModel(tool(7), "It compares with seven.", DOWN)
    made = await maker(model, gates=gates).make(request())
    assert made.best is not None
    assert made.best.number == 0
    assert made.heldout is not None
    assert len(gates.asked) == 1
    assert made.passed
    assert "nobody listens" in made.problem


async def test_a_model_that_hangs_is_left() -> None:
    async def hangs(_: float) -> Completion:
        await asyncio.get_running_loop().create_future()
        raise AssertionError

    made = await maker(ScriptedModel(hangs), limits=ModelLimits(request_timeout_s=-1)).make(
        request()
    )
    assert made.unavailable
    assert "hung" in made.problem


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        ("", "was empty"),
        ("I would rather not.", "held no code"),
        (block(source(5)) + "\n\n" + block(source(6)), "held 2 code blocks"),
        (Completion(f"so\n```python\n{source(5)}", "length", 1, 1), "cut off"),
        ("so\n```sql\nSELECT 1\n```", "marked as sql"),
        (block("def queries(:"), "is not Python"),
        (block(source(5) + "import os\n"), "imports `os`"),
        (block(f"X = '{'x' * 60_000}'\n"), "the limit is"),
    ],
)
async def test_a_reply_that_cannot_be_tried_is_a_round_and_is_told(
    reply: str | Completion, why: str
) -> None:
    model = ScriptedModel(reply, tool(5))
    trials = FakeTrials()
    made = await maker(model, trials=trials).make(request())
    first, second = made.rounds
    assert (first.number, first.score) == (0, None)
    assert why in first.refused
    assert made.best == second
    assert second.number == 1
    # There is nothing to reflect on: the next prompt says what was wrong itself.
    prompts = said(model)
    assert [step(prompt) for prompt in prompts] == ["make", "repair"]
    diagnosis = prompts[1].split("# Diagnosis")[1].split("# Failing cases")[0]
    assert why in diagnosis
    assert {text for text, _ in trials.ran} == {source(5)}


async def test_refused_code_is_shown_again_and_its_reason_is_not_forgotten() -> None:
    bad = source(5) + "\nimport os\n"
    model = ScriptedModel(block(bad), "Nothing.", tool(5))
    await maker(model).make(request())
    last = said(model)[2]
    assert "import os" in last.split("# Candidate")[1].split("# Diagnosis")[0]
    diagnosis = last.split("# Diagnosis")[1].split("# Failing cases")[0]
    assert "imports `os`" in diagnosis
    assert "held no code" in diagnosis


async def test_what_was_said_of_other_code_is_not_said_of_this() -> None:
    bad = source(5) + "\nimport os\n"
    model = ScriptedModel(tool(7), "It compares with seven.", block(bad), tool(5))
    await maker(model).make(request())
    diagnosis = said(model)[3].split("# Diagnosis")[1].split("# Failing cases")[0]
    assert "imports `os`" in diagnosis
    assert "seven" not in diagnosis


async def test_nothing_but_refusals_makes_nothing() -> None:
    gates = FakeGates()
    made = await maker(ScriptedModel("No."), gates=gates).make(request(rounds=2))
    assert [one.number for one in made.rounds] == [0, 1, 2]
    assert made.best is None
    assert not made.passed
    assert not made.unavailable
    assert "held no code" in made.problem
    assert gates.asked == []


async def test_a_sandbox_that_is_gone_ends_it() -> None:
    trials = FakeTrials(lambda *_: SandboxFailed("no worker"))
    made = await maker(ScriptedModel(tool(5)), trials=trials).make(request())
    assert made.best is None
    assert (made.problem, made.unavailable, made.gates) == ("no worker", True, ())


async def test_a_sandbox_that_goes_during_the_gates_passes_none() -> None:
    class Gone(FakeGates):
        async def check(self, *_: object) -> list[object]:  # type: ignore[override]
            raise SandboxFailed("no worker")

    made = await maker(ScriptedModel(tool(5)), gates=Gone()).make(request())
    assert made.best is not None
    assert made.heldout is not None
    assert made.gates == ()
    assert made.unavailable


async def test_an_outage_is_no_reason_to_ask_a_model_again() -> None:
    model = ScriptedModel(tool("down"), tool(5))
    made = await maker(model).make(request())
    assert len(model.asked) == 1
    assert made.unavailable
    assert "source_connect" in made.problem
    assert made.gates == ()


async def test_a_collector_that_cannot_reach_a_source_ends_it() -> None:
    class Down(FakeCollector):
        async def collect(self, *_: object) -> list[object]:  # type: ignore[override]
            raise SourceFailed(SourceFailure.CONNECT, "no route")

    model = ScriptedModel(tool(5))
    made = await maker(model, collector=Down()).make(request())
    assert (made.unavailable, model.asked) == (True, [])


async def test_cancelled_it_passes_the_cancellation_on() -> None:
    gates = FakeGates()
    started = asyncio.ensure_future(
        maker(ScriptedModel(tool(5)), trials=HangingTrials(), gates=gates).make(request())
    )
    await asyncio.sleep(0)
    started.cancel()
    with pytest.raises(asyncio.CancelledError):
        await started
    assert gates.asked == []


async def test_a_prompt_that_cannot_fit_says_which_setting_to_raise() -> None:
    model = ScriptedModel(tool(5))
    made = await maker(model, limits=ModelLimits(context_tokens=600, reply_tokens=500)).make(
        request()
    )
    assert model.asked == []
    assert not made.unavailable
    assert "context_tokens" in made.problem


# --- rounds -------------------------------------------------------------------------------------


async def test_the_first_candidate_that_passes_all_ends_the_rounds() -> None:
    model = ScriptedModel(tool(7), "It compares with seven.", tool(5), "never asked")
    made = await maker(model).make(request())
    assert [step(prompt) for prompt in said(model)] == ["make", "reflect", "repair"]
    assert made.train is not None
    assert (made.train.passed, made.train.total) == (6, 6)
    assert made.best is not None
    assert made.best.diagnosis == "It compares with seven."
    assert made.best.sha256 == sha256_hex(source(5).encode())
    assert made.passed
    assert made.problem == ""


async def test_the_best_wins_and_not_the_last() -> None:
    model = ScriptedModel(tool(0), "Higher.", tool(6), "Higher.", tool(8), "Lower.", tool(20))
    made = await maker(model).make(request())
    assert [one.score.passed for one in made.rounds if one.score] == [3, 5, 4, 3]
    assert made.best is not None
    assert made.best.number == 1


async def test_of_equals_the_one_that_fails_less_often_wins_then_the_earlier() -> None:
    model = ScriptedModel(tool("oops"), "A name.", tool(0), "Higher.", tool(20))
    made = await maker(model).make(request(rounds=2))
    assert [one.score.passed for one in made.rounds if one.score] == [0, 3, 3]
    assert best_of(made.rounds) is made.rounds[1]


async def test_without_repair_there_is_one_candidate() -> None:
    model = ScriptedModel(tool(7))
    made = await maker(model).make(request(repair=False))
    assert [step(prompt) for prompt in said(model)] == ["make"]
    assert len(made.rounds) == 1
    assert made.heldout is not None


async def test_no_more_rounds_than_asked_for() -> None:
    model = ScriptedModel(tool(7), "Hm.", tool(8), "Hm.", tool(9), "Hm.", tool(5))
    made = await maker(model).make(request(rounds=2))
    assert [one.number for one in made.rounds] == [0, 1, 2]
    assert len(model.asked) == 5


async def test_the_same_code_again_is_told_and_is_not_tried_twice() -> None:
    trials = FakeTrials()
    model = ScriptedModel(tool(7), "Lower.", tool(7), tool(5))
    made = await maker(model, trials=trials).make(request())
    assert "very code of the first reply" in made.rounds[1].refused
    assert "very code of the first reply" in said(model)[3].split("# Diagnosis")[1]
    assert "Lower." in said(model)[3]
    assert made.best is not None
    assert made.best.number == 2
    train = tuple(one.entity for one in TRAIN)
    assert [text for text, ran in trials.ran if ran == train] == [source(7), source(5)]


async def test_code_of_an_earlier_round_is_known_again() -> None:
    model = ScriptedModel(tool(7), "Lower.", tool(6), "Lower.", tool(7), tool(5))
    made = await maker(model).make(request())
    assert "very code of the first reply" in made.rounds[2].refused
    # What is to be mended is the later one still.
    assert "LIMIT = 6" in said(model)[5].split("# Candidate")[1].split("# Diagnosis")[0]


async def test_the_third_repeat_ends_it() -> None:
    model = ScriptedModel(tool(7), "Lower.", tool(7))
    made = await maker(model).make(request(rounds=10))
    assert len(made.rounds) == 1 + MOST_REPEATS
    assert made.best is not None
    assert made.best.number == 0


# --- what reaches the model ---------------------------------------------------------------------


async def test_held_out_cases_never_reach_a_prompt() -> None:
    marked = [
        case(77_001, 100),
        case(3, 101, subject="MARK-subject", expected="true", note="MARK-note"),
        case(2, 102, labels={"MARK": "MARK-label"}, warehouse="MARK-site"),
    ]
    given = [trace(marked[0].case_id, entity="MARK"), trace("decision 1", entity="keeps")]
    same = trace(
        "decision 2",
        site=marked[1].warehouse,
        entity=marked[1].entity,
        timestamp=marked[1].timestamp.isoformat(),
        units={"MARK": "unit"},
    )
    model = ScriptedModel(tool(7), "Lower.", tool(8), "Lower.", tool(9), "Lower.", tool(6))
    made = await maker(model).make(request(heldout=marked, given=[*given, same]))
    assert made.heldout is not None
    assert made.heldout.total == 3
    everything = "".join(m.content for one in model.asked for m in one.messages)
    assert "keeps" in everything
    for sign in ("MARK", "77001", *(one.case_id for one in marked)):
        assert sign not in everything
    for one in marked:
        assert one.timestamp.isoformat() not in everything
    assert [one.origin for one in made.traces] == ["decision 1"]


async def test_traces_are_collected_on_training_cases_and_shown_first() -> None:
    collector = FakeCollector(trace("c1", entity="fresh"))
    model = ScriptedModel(tool(5))
    old = [trace("c1", entity="stale"), trace("c2", entity="older")]
    made = await maker(model, collector=collector).make(request(given=old))
    assert collector.given == [one.case_id for one in TRAIN]
    assert [one.entity for one in made.traces] == ["fresh", "older"]
    (prompt,) = said(model)
    assert "# Traces" in prompt
    assert prompt.index("entity: fresh") < prompt.index("entity: older")


async def test_without_traces_none_are_collected_or_shown() -> None:
    collector = FakeCollector(trace())
    model = ScriptedModel(tool(7), "Lower.", tool(5))
    made = await maker(model, collector=collector).make(request(traces=False, given=[trace()]))
    assert collector.given == []
    assert made.traces == ()
    assert all("# Traces" not in prompt for prompt in said(model))


async def test_failing_cases_and_the_diagnosis_reach_the_repair() -> None:
    model = ScriptedModel(tool(7), "It compares with seven.", tool(5))
    await maker(model).make(request())
    _, reflect, repair = said(model)
    (wrong,) = [one for one in TRAIN if one.entity == "6"]
    for prompt in (reflect, repair):
        assert f"## Case {wrong.case_id}" in prompt
        assert "expected: true\n" in prompt
        assert "predicted: false\n" in prompt
        assert "- level over night: 6 > 7 -> false" in prompt
        assert "5 of 6 cases are right" in prompt
    assert "It compares with seven." in repair
    assert repair.endswith(f"# Question\n\n{TEXT}")


async def test_everything_said_is_counted_and_kept() -> None:
    collector = FakeCollector(trace())
    model = ScriptedModel(tool(7), "Lower.", tool(5))
    made = await maker(model, collector=collector).make(request())
    assert [(one.step, one.round) for one in made.transcript] == [
        ("collect", 0),
        ("collect", 0),
        ("make", 0),
        ("reflect", 1),
        ("repair", 1),
    ]
    assert made.tokens == sum(one.prompt_tokens + one.completion_tokens for one in made.transcript)
    assert made.tokens > 242
    assert made.transcript[2].messages[1] == ("user", said(model)[0])
    assert made.transcript[2].reply == tool(7)
    assert made.seconds > 0


async def test_a_quoted_sentence_is_known_as_blamed() -> None:
    quote = 'All of it is as asked.\nSentence: "Count what came in over the night"'
    model = ScriptedModel(tool(7), quote, tool(5))
    made = await maker(model).make(request())
    assert made.rounds[1].blamed == "Count what came in over the night as well."


async def test_the_gates_see_the_best_with_its_scores() -> None:
    gates = FakeGates("budget")
    made = await maker(ScriptedModel(tool(5)), gates=gates).make(request())
    ((candidate, train, heldout),) = gates.asked
    assert candidate.text == source(5)
    assert (train.total, heldout.total) == (len(TRAIN), len(HELDOUT))
    assert not made.passed
    assert candidate.sources == tuple(task().sources)


async def test_every_step_is_told() -> None:
    steps: list[str] = []
    model = ScriptedModel(tool(7), "Lower.", tool(5))
    await maker(model, told=steps.append, collector=FakeCollector()).make(request())
    assert steps == [
        "collecting traces",
        "asking for a first candidate",
        "trying it on 6 cases",
        "repair 1",
        "trying it on 6 cases",
        "testing on 2 held-out cases",
        "checking the gates",
    ]
