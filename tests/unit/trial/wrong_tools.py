"""Tools that do something wrong, and what that comes to."""

from __future__ import annotations

from typing import NamedTuple

from tests.unit.trial.trial_world import asking, judging, stepping


class Wrong(NamedTuple):
    """`detail` is part of what is said of it; without `same_words` the interpreters say it each in
    their own."""

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
        "raising in a function of its own",
        judging("def inner():\n    raise ValueError('deep')\nreturn inner()"),
        "tool_raised",
        "line 12: ValueError: deep",
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
