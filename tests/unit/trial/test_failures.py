"""What a tool may do wrong, and what it then comes to: the same words in both interpreters."""

from __future__ import annotations

from typing import NamedTuple

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
from triage.errors import SourceFailed, SourceFailure, ToolFailed, ToolFailure
from triage.trial.model import FAILED


class Wrong(NamedTuple):
    name: str
    text: str
    reason: str
    detail: str
    dynamic: bool = False
    same_words: bool = True


ONE = "rows('memory', 'select depth')"
WRONG = [
    Wrong(
        "a value that is none",
        judging("return 'true'"),
        "invalid_result",
        "evaluate() returned str, not a Verdict",
    ),
    Wrong("nothing", judging("pass"), "invalid_result", "evaluate() returned NoneType"),
    Wrong(
        "a truth that is none",
        judging("return Verdict('true')"),
        "invalid_result",
        "the verdict's value is str, not a Truth",
    ),
    Wrong(
        "clauses in a list",
        judging("return Verdict(Truth.TRUE, [])"),
        "invalid_result",
        "clauses must be a tuple of at most 64",
    ),
    Wrong(
        "too many clauses",
        judging("return Verdict(Truth.TRUE, (compare('a', 1, '>', 0),) * 65)"),
        "invalid_result",
        "clauses must be a tuple of at most 64",
    ),
    Wrong(
        "a clause that is none",
        judging("return Verdict(Truth.TRUE, ('x',))"),
        "invalid_result",
        "a clause is a str",
    ),
    Wrong(
        "a figure that is none",
        judging("return Verdict(Truth.TRUE, (Clause('a', [1], '>', 0),))"),
        "invalid_result",
        "clause 'a' holds a value that is no number or text",
    ),
    Wrong(
        "a figure of too many bits",
        judging("return Verdict(Truth.TRUE, (Clause('a', 2**63, '>', 0),))"),
        "invalid_result",
        "clause 'a' holds a value that is no number or text",
    ),
    Wrong(
        "a long explanation",
        judging("return no_data('x' * 2001)"),
        "invalid_result",
        "the explanation must be text of at most 2000",
    ),
    Wrong(
        "an endless explanation",
        judging("return no_data('x' * 3_000_000)"),
        "invalid_result",
        "the explanation must be text of at most 2000",
    ),
    Wrong(
        "a subject with NUL",
        judging(r"return no_data('x', subject='\0')"),
        "invalid_result",
        "the subject must be text",
    ),
    Wrong(
        "a subject that is none",
        judging("return no_data('x', subject=7)"),
        "invalid_result",
        "the subject must be text",
    ),
    Wrong(
        "queries that are none",
        asking("return None"),
        "invalid_queries",
        "queries() returned NoneType, not a list of queries",
    ),
    Wrong(
        "queries in a dict",
        asking("return {}"),
        "invalid_queries",
        "queries() returned dict, not a list of queries",
    ),
    Wrong(
        "too many queries",
        asking(f"return [{ONE}] * 65"),
        "invalid_queries",
        "queries() returned 65 queries, the limit is 64",
    ),
    Wrong("a query that is none", asking("return [1]"), "invalid_queries", "a int is not a query"),
    Wrong(
        "a query of something else",
        asking("return [Rows('memory', 7)]"),
        "invalid_queries",
        "a Rows query was made of str, int, tuple",
    ),
    Wrong(
        "a window without end",
        asking("return [Samples('memory', 'up', timestamp, None)]"),
        "invalid_queries",
        "a Samples query was made of str, str, datetime, NoneType",
    ),
    Wrong(
        "a window without offset",
        asking("return [Samples('memory', 'up', timestamp, timestamp.replace(tzinfo=None))]"),
        "invalid_queries",
        "a window's start and end need an offset",
    ),
    Wrong(
        "params that are none",
        asking("return [Rows('memory', 'x', ('a', 'b'))]"),
        "invalid_queries",
        "params are (name, value) pairs",
    ),
    Wrong(
        "a param that is none",
        asking("return [rows('memory', 'x', a=[1])]"),
        "invalid_queries",
        "param 'a' is no text, finite number",
    ),
    Wrong(
        "a param without end",
        asking("return [rows('memory', 'x', a=1e308 * 10)]"),
        "invalid_queries",
        "param 'a' is no text, finite number",
    ),
    Wrong(
        "many params",
        asking("return [Rows('memory', 'x', tuple((str(n), n) for n in range(257)))]"),
        "invalid_queries",
        "a query has at most 256 params",
    ),
    Wrong(
        "long SQL",
        asking("return [rows('memory', 'x' * 65_537)]"),
        "invalid_queries",
        "SQL must be text of at most 65536 characters",
    ),
    Wrong(
        "arguments that are no JSON",
        asking("return [Call('memory', 'f', '{')]"),
        "invalid_queries",
        "a call's arguments are not JSON",
    ),
    Wrong(
        "another source",
        asking("return [rows('other', 'x')]"),
        "undeclared_source",
        "asks source 'other'; the node declares memory",
    ),
    Wrong(
        "raising",
        judging("x = 1\nraise ValueError('what now')"),
        "tool_raised",
        "line 12: ValueError: what now",
    ),
    Wrong(
        "raising in a function given",
        judging("return compare('a', 1, '=~', 2)"),
        "tool_raised",
        "line 11: ValueError: '=~' is not a comparison",
    ),
    Wrong(
        "raising while asking",
        asking("raise KeyError('x')"),
        "tool_raised",
        "line 9: KeyError: x",
        same_words=False,
    ),
    Wrong(
        "many lines said",
        judging("raise ValueError('line 3\\nline 4')"),
        "tool_raised",
        "line 11: ValueError: line 3 line 4",
    ),
    Wrong(
        "a name without import",
        judging("return median([1.0])"),
        "tool_raised",
        "line 11: NameError: name 'median' is not defined",
    ),
    Wrong(
        "parents while asking",
        asking("return [context.parents['x']]"),
        "tool_raised",
        "line 9: RuntimeError: queries() reads context.parents: it is called before any parent",
    ),
    Wrong(
        "whether there are parents, while asking",
        asking("if context.parents:\n    pass\nreturn []"),
        "tool_raised",
        "line 9: RuntimeError: queries() reads context.parents: it is called before any parent",
    ),
    Wrong(
        "a parent that it does not read",
        judging("return context.parents['rc_x']"),
        "tool_raised",
        "line 11: KeyError: rc_x",
        same_words=False,
    ),
    Wrong(
        "a query that was not asked",
        judging(f"return context.answer({ONE})"),
        "tool_raised",
        "line 11: LookupError: queries() did not return Rows(source='memory'",
    ),
    Wrong(
        "one that raises in steps",
        stepping("raise ValueError('x')"),
        "tool_raised",
        "line 9: ValueError: x",
        True,
    ),
    Wrong(
        "nothing, in steps",
        stepping("return None"),
        "invalid_result",
        "evaluate() returned NoneType",
        True,
    ),
    Wrong(
        "no query, in steps",
        stepping("await context.ask(7)\nreturn no_data('x')"),
        "invalid_queries",
        "a int is not a query",
        True,
    ),
    Wrong(
        "another source, in steps",
        stepping("await context.ask(rows('other', 'x'))\nreturn no_data('x')"),
        "undeclared_source",
        "asks source 'other'",
        True,
    ),
    Wrong(
        "another source, swallowed",
        stepping(
            "try:\n    await context.ask(rows('other', 'x'))\nexcept Exception:\n    pass\n"
            "return no_data('x')"
        ),
        "undeclared_source",
        "asks source 'other'",
        True,
    ),
    Wrong(
        "too many queries, in steps",
        stepping(f"for n in range(65):\n    await context.ask({ONE})\nreturn no_data('x')"),
        "invalid_queries",
        "asked more than 64 queries",
        True,
    ),
]


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
