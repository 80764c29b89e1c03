"""What a tool may do wrong, and what it then comes to: the same words in both interpreters."""

from __future__ import annotations

import pytest

from tests.unit.trial.trial_world import (
    DEPTH,
    Given,
    asking,
    both,
    candidate,
    depth,
    in_process,
    in_sandbox,
    judging,
    setting,
    shown,
    sql_of,
    stepping,
)
from tests.unit.trial.wrong_tools import WRONG, Wrong
from triage.errors import SourceFailed, SourceFailure, ToolFailed, ToolFailure
from triage.trial.model import FAILED


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: wrong.name)
async def test_a_fault_of_the_tools(wrong: Wrong) -> None:
    one = candidate(wrong.text, dynamic=wrong.dynamic)
    tried = await both(one, setting(), depth, same_words=wrong.same_words)
    assert (tried.value, tried.failure) == (FAILED, wrong.reason)
    assert wrong.detail in tried.detail
    assert "\n" not in tried.detail
    assert tried.clauses == ()
    assert not tried.ok


BROKEN = [
    ("", "invalid_result", "`evaluate` is not a function"),
    ("evaluate = 7", "invalid_result", "`evaluate` is not a function"),
    ("def evaluate(w, t, c):\n    return 1", "invalid_queries", "`queries` is not a function"),
    ("x = (", "tool_raised", "line 1: SyntaxError: "),
    ("\n\nx = 1 / 0", "tool_raised", "line 3: ZeroDivisionError: division by zero"),
    (
        "\nfrom triage.tool_api import x",
        "tool_raised",
        "line 2: ImportError: cannot import name 'x'",
    ),
    ("x = '\0'", "tool_raised", "SyntaxError"),
    ("x = " + "(" * 5_000 + ")" * 5_000, "tool_raised", "SyntaxError"),
    ("def queries(w, t, c):\n    yield 1", "tool_raised", "this interpreter does not have yield"),
]


@pytest.mark.parametrize(("text", "reason", "detail"), BROKEN)
async def test_a_file_that_does_not_load_fails_every_setting(
    text: str, reason: str, detail: str
) -> None:
    async with in_sandbox() as trials:
        tried = await trials.run(candidate(text), [(setting(), depth())] * 3)
    assert len(tried) == 3
    assert {(one.value, one.failure) for one in tried} == {(FAILED, reason)}
    assert all(detail in one.detail for one in tried)


@pytest.mark.parametrize(
    ("text", "dynamic"),
    [
        (stepping("return no_data('x')") + "\ndef queries(w, t, c):\n    return []", False),
        (judging("return no_data('x')"), True),
    ],
)
async def test_a_tool_is_dynamic_or_it_is_not(text: str, dynamic: bool) -> None:
    async with in_sandbox() as trials:
        [tried] = await trials.run(candidate(text, dynamic=dynamic), [(setting(), depth())])
    assert (tried.failure, tried.detail) == ("invalid_result", "`evaluate` and `dynamic` disagree")


DOWN = SourceFailed(SourceFailure.CONNECT, "nobody listens")
REJECTED = ToolFailed(ToolFailure.QUERY_REJECTED, "no such column")
SLOW = SourceFailed(SourceFailure.TIMEOUT, "too slow")
THREE = "return [rows('memory', name) for name in ('a', 'b', 'c')]"


@pytest.mark.parametrize(
    ("answers", "reason", "detail"),
    [
        ({"b": DOWN}, "source_connect", "nobody listens"),
        ({"b": REJECTED}, "query_rejected", "no such column"),
        ({"a": REJECTED, "c": DOWN}, "source_connect", "nobody listens"),
        ({"a": SLOW, "c": DOWN}, "source_timeout", "too slow"),
        ({"a": REJECTED, "b": SLOW, "c": DOWN}, "source_timeout", "too slow"),
    ],
)
async def test_an_answer_that_cannot_be_had(
    answers: dict[str, ToolFailed | SourceFailed], reason: str, detail: str
) -> None:
    def given() -> Given:
        return Given(lambda query: answers.get(sql_of(query), ()))

    tried = await both(candidate(asking(THREE)), setting(), given)
    assert (tried.value, tried.failure, tried.detail) == (FAILED, reason, detail)
    assert [sql_of(told.query) for told in tried.asked] == ["a", "b", "c"]
    assert [told.failure for told in tried.asked] == [
        answers[name].reason if name in answers else "" for name in "abc"
    ]
    assert [told.body for told in tried.asked] == [
        b"" if name in answers else b'{"rows":[]}' for name in "abc"
    ]


@pytest.mark.parametrize("failure", [DOWN, REJECTED])
@pytest.mark.parametrize("swallows", [True, False])
async def test_a_failure_in_steps_counts_whatever_the_tool_makes_of_it(
    failure: ToolFailed | SourceFailed, swallows: bool
) -> None:
    step = "await context.ask(rows('memory', 'select depth', site=warehouse))"
    body = f"try:\n    {step}\nexcept Exception:\n    pass" if swallows else step
    one = candidate(stepping(f"{body}\nreturn no_data('fine')"), dynamic=True)
    tried = await both(one, setting(), lambda: Given({DEPTH: failure}))
    assert (tried.failure, tried.detail) == (failure.reason, failure.detail)


async def test_after_a_failure_in_steps_nothing_is_asked() -> None:
    step = "await context.ask(rows('memory', '{}'))"
    swallowed = "\n".join(
        f"try:\n    {step.format(name)}\nexcept Exception:\n    pass" for name in "ab"
    )
    one = candidate(stepping(f"{swallowed}\nreturn no_data('fine')"), dynamic=True)
    tried = await both(one, setting(), lambda: Given(lambda _query: DOWN))
    assert [sql_of(told.query) for told in tried.asked] == ["a"]


async def test_of_steps_that_fail_at_once_the_first_counts() -> None:
    body = (
        "import asyncio\ntry:\n"
        "    await asyncio.gather(*[context.ask(rows('memory', name)) for name in 'ab'])\n"
        "except RuntimeError:\n    pass\nreturn no_data('fine')"
    )
    failures = {"a": DOWN, "b": SLOW}
    given = Given(lambda query: failures[sql_of(query)])
    async with in_sandbox() as trials:
        [tried] = await trials.run(candidate(stepping(body), dynamic=True), [(setting(), given)])
    assert tried.failure == "source_connect"
    assert [sql_of(query) for query in given.asked] == ["a", "b"]


async def test_an_answer_that_is_too_large() -> None:
    one = candidate()
    large = ({"value": "x" * (1 << 20)},)
    tried = await both(one, setting(), lambda: Given({DEPTH: large}))
    assert tried.failure == "answer_too_large"
    assert "the limit is 1048576" in tried.detail


async def test_an_answer_that_no_record_could_hold() -> None:
    tried = await both(candidate(), setting(), lambda: Given({DEPTH: ({"value": object()},)}))
    assert tried.failure == "source_protocol"


async def test_a_failure_ends_only_its_own_setting() -> None:
    one = candidate(
        judging("if context.entity == 'bad':\n    raise ValueError('bad')\nreturn no_data('x')")
    )
    settings = [(setting(name), depth()) for name in ("a", "bad", "b", "bad", "c")]
    async with in_sandbox() as trials:
        there = await trials.run(one, settings)
    here = await in_process(one).run(one, settings)
    assert [tried.failure for tried in there] == ["", "tool_raised", "", "tool_raised", ""]
    assert list(map(shown, there)) == list(map(shown, here))


async def test_a_fault_of_the_answers_is_not_the_tools() -> None:
    for dynamic, text in (
        (False, None),
        (
            True,
            stepping(
                "try:\n    await context.ask(rows('memory', 'x'))\nexcept Exception:\n    pass\n"
                "return no_data('x')"
            ),
        ),
    ):
        one = candidate(*([text] if text else []), dynamic=dynamic)
        async with in_sandbox() as trials:
            with pytest.raises(ZeroDivisionError, match="a bug of ours"):
                await trials.run(
                    one, [(setting(), Given(lambda _q: ZeroDivisionError("a bug of ours")))]
                )
            [tried] = await trials.run(one, [(setting(), depth())])
        assert tried.value != FAILED


@pytest.mark.parametrize("secret", ["password=hunter2hunter2", "https://me:hunter2hunter2@host/"])
async def test_what_is_kept_of_a_failure_is_scrubbed(secret: str) -> None:
    failure = SourceFailed(SourceFailure.CONNECT, f"cannot reach {secret}\x1b[2J\nat all")
    tried = await both(candidate(), setting(), lambda: Given({DEPTH: failure}))
    said = f"{tried.detail} {tried.asked[0].detail}"
    assert "hunter2" not in said
    assert said.isprintable()


async def test_what_a_tool_is_told_of_a_failure_is_scrubbed() -> None:
    failure = SourceFailed(SourceFailure.CONNECT, "password=hunter2hunter2")
    body = (
        "try:\n    await context.ask(rows('memory', 'x'))\nexcept Exception as error:\n"
        "    if 'hunter2' in str(error):\n        while True:\n            pass\n"
        "return no_data('x')"
    )
    one = candidate(stepping(body), dynamic=True)
    async with in_sandbox() as trials:
        [tried] = await trials.run(one, [(setting(), Given(lambda _q: failure))])
    assert tried.failure == "source_connect"
