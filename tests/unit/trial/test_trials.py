"""What a tool sees of a setting, and what it is told: the same in both interpreters."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta, timezone
from math import inf, nan
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.trial.trial_world import (
    AT,
    DEPTH,
    LIMITS,
    SANDBOX,
    SITE,
    Given,
    asking,
    both,
    candidate,
    depth,
    in_process,
    in_sandbox,
    judging,
    series,
    setting,
    shown,
    sql_of,
    stepping,
)
from triage.adapters.sandbox import MontySandbox
from triage.errors import SandboxFailed
from triage.model.query import Aggregate, Answer, Call, Query, Reading, Rows, Samples, Series
from triage.model.verdict import Clause, Truth, Verdict
from triage.ports import SandboxRun, SandboxSession
from triage.trial.limits import TrialLimits
from triage.trial.model import Setting, Told
from triage.trial.source import source_of
from triage.trial.trials import SandboxTrials

YES = Verdict(Truth.TRUE, (Clause("a", 1.5, ">", 1, "m", True),), "it is so", "CH-7")
NO = Verdict(Truth.FALSE, (Clause("b", "x", "==", "y", "", False), Clause("c", None, "<", True)))
PARENTS = {"obs_a": YES, "rc_b": NO, "rc_secret": YES}


async def test_a_verdict_and_what_was_asked_for_it() -> None:
    tried = await both(candidate(), setting(), depth)
    assert tried.ok
    assert (tried.value, tried.subject, tried.explanation) == ("true", "CH-1", "12.5 against 10.0")
    assert tried.clauses == (Clause("depth", 12.5, ">", 10.0, "m", True),)
    assert tried.asked == (Told(DEPTH, b'{"rows":[{"value":12.5}]}'),)
    assert (tried.failure, tried.detail) == ("", "")


@pytest.mark.parametrize(("value", "word"), [(12.5, "true"), (9, "false"), (None, "no_data")])
async def test_three_verdicts(value: float | None, word: str) -> None:
    answer = ({"value": value},) if value is not None else ()
    tried = await both(candidate(), setting(), lambda: Given({DEPTH: answer}))
    assert tried.value == word


async def test_whoever_waits_for_others_does_so_on_nobodys_time() -> None:
    now, waits = 0.0, 0

    def monotonic() -> float:
        return now

    async def ease() -> None:
        nonlocal now, waits
        now, waits = now + 2 * LIMITS.evaluate_s, waits + 1

    async with in_sandbox(monotonic=monotonic, ease=ease) as trials:
        tried = await trials.run(candidate(), [(setting(), depth()), (setting(), depth())])
    assert [one.value for one in tried] == ["true", "true"]
    assert waits >= 4
    assert [one.elapsed_ms for one in tried] == [0, 0]


async def test_a_text_is_made_ready_once() -> None:
    """It takes longer than all else that begins a session here, and a shadow's is run for ever."""
    one = candidate()
    ready = source_of(one.text)
    async with in_sandbox() as trials:
        before = source_of.cache_info().hits
        await trials.run(one, [(setting(), depth())])
    assert source_of.cache_info().hits == before + 1
    assert source_of(one.text) is ready


async def test_nothing_to_try() -> None:
    async with in_sandbox() as trials:
        assert await trials.run(candidate(), []) == []


async def test_in_order_and_each_with_its_own() -> None:
    some = [(setting(f"CH-{n}", params={"limit": n}), depth(7.0)) for n in range(60)]
    async with in_sandbox(TrialLimits(settings_a_session=7)) as trials:
        there = await trials.run(candidate(), some)
        again = await trials.run(candidate(), some[::-1])
    here = await in_process(candidate()).run(candidate(), some)
    assert [one.subject for one in there] == [f"CH-{n}" for n in range(60)]
    assert list(map(shown, there)) == list(map(shown, here)) == list(map(shown, again[::-1]))


class Counting(MontySandbox):
    """Counts the runs of its sessions."""

    runs = 0

    @asynccontextmanager
    async def session(self, **parts: Any) -> AsyncIterator[SandboxSession]:
        async with super().session(**parts) as inner:

            class Session:
                async def run(_self, code: str, *, timeout_s: float) -> SandboxRun:  # noqa: N805
                    self.runs += 1
                    return await inner.run(code, timeout_s=timeout_s)

            yield Session()


@pytest.mark.parametrize(("run_s", "runs"), [(0.0, 5), (3.5, 3), (1000.0, 1)])
async def test_a_run_may_end_before_its_settings_do(run_s: float, runs: int) -> None:
    """By a clock that goes on a second whenever it is looked at: two seconds a setting."""
    ticks = itertools.count()
    sandbox = Counting(SANDBOX)
    await sandbox.open()
    try:
        sandbox.runs = 0
        limits = TrialLimits(run_s=run_s, evaluate_s=60.0)
        trials = SandboxTrials(sandbox, limits=limits, monotonic=lambda: float(next(ticks)))
        tried = await trials.run(candidate(), [(setting(str(n)), depth(n)) for n in range(5)])
    finally:
        await sandbox.close()
    assert [one.subject for one in tried] == list("01234")
    assert sandbox.runs == runs


SEEN = """
said = [warehouse, timestamp.isoformat(), repr(timestamp.tzinfo), context.entity]
said += [context.site.name, context.site.zone, context.site.units, context.site.facts]
said += [context.params, context.labels, sorted(context.parents.items())]
said += [context.wall_clock(timestamp).isoformat()]
said += [context.localise("2026-11-01 01:30:00", fold=fold).isoformat() for fold in (0, 1)]
return no_data(repr(said))
"""


async def test_all_that_a_tool_sees() -> None:
    one = candidate(judging(SEEN), reads_parents=("obs_a", "rc_b", "rc_unheard"))
    of = setting(labels={"b": "1", "a": "ü"}, params={"on": True, "name": "x"}, parents=PARENTS)
    tried = await both(one, of, depth)
    assert "'limit': 10, 'on': True, 'name': 'x'" in tried.explanation
    assert "it is so" in tried.explanation
    assert "secret" not in tried.explanation
    assert "'2026-11-18T10:07:00'" in tried.explanation


async def test_a_tool_that_reads_no_parent_sees_none() -> None:
    body = "return no_data(repr(sorted(context.parents)) + repr(context.parents.get('obs_a')))"
    tried = await both(candidate(judging(body)), setting(parents=PARENTS), depth)
    assert tried.explanation == "[]None"


async def test_a_parents_verdict_reads_as_it_was() -> None:
    body = """
told = context.parents["obs_a"]
first = told.clauses[0]
said = (told.value is Truth.TRUE, told.subject, first.observed, first.threshold, first.holds)
return no_data(repr(said), clauses=context.parents["rc_b"].clauses)
"""
    one = candidate(judging(body), reads_parents=("obs_a", "rc_b"))
    tried = await both(one, setting(parents=PARENTS), depth)
    assert tried.explanation == "(True, 'CH-7', 1.5, 1, True)"
    assert tried.clauses == NO.clauses


async def test_each_query_is_asked_once_and_all_at_the_same_time() -> None:
    class Meeting(Given):
        """Answers nobody before all three have come."""

        def __init__(self) -> None:
            super().__init__(lambda _query: ())
            self._all = asyncio.Event()

        async def answer(self, query: Query, *, timeout_s: float) -> Answer:
            answer = await super().answer(query, timeout_s=timeout_s)
            if len(self.asked) == 3:
                self._all.set()
            await self._all.wait()
            return answer

    one = candidate(asking("return [rows('memory', name) for name in ('a', 'b', 'a', 'c', 'b')]"))
    made: list[Meeting] = []

    def meeting() -> Meeting:
        made.append(Meeting())
        return made[-1]

    tried = await both(one, setting(), meeting)
    assert [sql_of(told.query) for told in tried.asked] == ["a", "b", "c"]
    assert [[sql_of(query) for query in each.asked] for each in made] == [["a", "b", "c"]] * 2


STEPS = """
first = await context.ask(rows("memory", "a", site=warehouse))
again = await context.ask(rows("memory", "a", site=warehouse))
next_one = await context.ask(rows("memory", "b", key=first[0]["key"]))
parents = sorted(context.parents)
return no_data(repr((first, again, next_one, parents)))
"""


async def test_a_tool_that_asks_in_steps() -> None:
    answers: dict[Query, Answer] = {
        Rows("memory", "a", (("site", "north"),)): ({"key": 7},),
        Rows("memory", "b", (("key", 7),)): ({"z": None, "y": -0.0},),
    }
    one = candidate(stepping(STEPS), dynamic=True, reads_parents=("obs_a",))
    tried = await both(one, setting(parents=PARENTS), lambda: Given(answers))
    said = ({"key": 7},), ({"key": 7},), ({"z": None, "y": -0.0},), ["obs_a"]
    assert tried.explanation == repr(said)
    assert [told.query for told in tried.asked] == list(answers)


async def test_a_dynamic_tool_knows_only_what_it_was_told() -> None:
    body = "await context.ask(rows('memory', 'a'))\nreturn context.answer(rows('memory', 'a'))"
    tried = await both(candidate(stepping(body), dynamic=True), setting(), depth)
    assert tried.detail.startswith("line 10: LookupError: queries() did not return Rows(")


async def test_several_steps_at_once_are_one_question() -> None:
    """Which the policy does not let a tool do, and the sandbox's interpreter does."""
    body = (
        "import asyncio\nasked = [context.ask(rows('memory', n)) for n in 'aba']\n"
        "return no_data(repr(await asyncio.gather(*asked)))"
    )
    given = Given(lambda query: ({"v": sql_of(query)},))
    async with in_sandbox() as trials:
        [tried] = await trials.run(candidate(stepping(body), dynamic=True), [(setting(), given)])
    assert tried.explanation == repr([({"v": n},) for n in "aba"])
    assert len(given.asked) == 2


NEW_YORK = timezone(timedelta(hours=-5))
QUERIES = """
minute = timedelta(seconds=60)
return [
    Samples("memory", "up", timestamp - minute, timestamp),
    samples("memory", selector("up", site=warehouse), timestamp, 0.5),
    rows("memory", "x", a=None, b=True, c=7, d=-0.0, e="ü'", f=2**62),
    call("memory", "f", a=[1, {"b": None}], c="ü"),
]
"""


async def test_queries_of_every_kind_arrive_as_they_were_made() -> None:
    given: list[Given] = []

    def answers() -> Given:
        given.append(Given(lambda query: {"no": 1} if isinstance(query, Call) else ()))
        return given[-1]

    await both(candidate(asking(QUERIES)), setting(), answers)
    here, there = (repr(one.asked) for one in given)
    assert here == there
    assert given[0].asked[:2] == [
        Samples("memory", "up", AT - timedelta(seconds=60), AT),
        Samples("memory", 'up{site="north"}', AT - timedelta(seconds=0.5), AT),
    ]


async def test_an_aggregate_of_another_offset() -> None:
    text = asking(
        "from datetime import timezone\nzone = timezone(timedelta(hours=-5))\n"
        "begin = (timestamp - timedelta(hours=1)).astimezone(zone)\n"
        "return [Aggregate('memory', 'up', begin, timestamp, 'quantile', 0.95)]"
    ).replace("Call, Clause", "Aggregate, Call, Clause")
    tried = await both(candidate(text), setting(), lambda: Given(lambda _query: ()))
    begin = (AT - timedelta(hours=1)).astimezone(NEW_YORK)
    assert repr(tried.asked[0].query) == repr(
        Aggregate("memory", "up", begin, AT, "quantile", 0.95)
    )


ECHO = """
found = context.answer(queries(warehouse, timestamp, context)[0])
if isinstance(found, tuple) and found and hasattr(found[0], "times"):
    found = [(one.labels, one.times, one.values) for one in found]
elif isinstance(found, tuple) and found and hasattr(found[0], "value"):
    found = [(one.labels, one.value) for one in found]
return conclude(
    [Clause(str(n), value, "==", None) for n, value in enumerate(flat(found))][:64] or
    [Clause("none", None, "==", None)],
    "said",
    subject=type(found).__name__,
)
"""
FLAT = """
def flat(value):
    if isinstance(value, dict):
        return [one for key, held in value.items() for one in (key, *flat(held))]
    if isinstance(value, (list, tuple)):
        return [one for held in value for one in flat(held)]
    return [value]
"""
number = st.floats(width=64) | st.sampled_from((nan, inf, -inf, -0.0, 5e-324, 1.7e308, 0.1 + 0.2))
text = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8)
labels = st.dictionaries(text, text, max_size=3)
finite = st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from((-0.0, 5e-324))
cell = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | finite | text


@st.composite
def some_series(draw: st.DrawFn) -> tuple[Series, ...]:
    made = []
    for _ in range(draw(st.integers(0, 3))):
        times = sorted(draw(st.lists(st.floats(0, 2e9), max_size=5, unique=True)))
        values = draw(st.lists(number, min_size=len(times), max_size=len(times)))
        made.append(Series(draw(labels), tuple(times), tuple(values)))
    return tuple(made)


some_answer: st.SearchStrategy[Answer] = st.one_of(
    some_series(),
    st.lists(st.builds(Reading, labels, number), max_size=4).map(tuple),
    st.lists(st.dictionaries(text, cell, max_size=4), max_size=4).map(tuple),
    st.recursive(cell, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner)),
)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(answers=st.lists(some_answer, min_size=20, max_size=40))
async def test_answers_arrive_bit_for_bit(answers: list[Answer]) -> None:
    one = candidate(FLAT + judging(ECHO))
    some = [(setting(), Given({DEPTH: answer})) for answer in answers]
    here = await in_process(one).run(one, some)
    async with in_sandbox() as trials:
        there = await trials.run(one, some)
    for answer, ours, theirs in zip(answers, here, there, strict=True):
        assert shown(theirs) == shown(ours), answer


async def test_many_large_answers() -> None:
    """More than a host function may give at once."""
    body = "return [rows('memory', str(n)) for n in range(8)]"
    check = (
        "found = [context.answer(query) for query in queries(warehouse, timestamp, context)]\n"
        "return no_data(repr([(one[0]['n'], len(one[0]['text'])) for one in found]))"
    )
    text_of = (
        asking(body).partition("def evaluate")[0]
        + judging(check)[judging(check).index("def evaluate") :]
    )
    large = Given(lambda query: ({"n": int(sql_of(query)), "text": "ä" * 400_000},))
    tried = await both(candidate(text_of), setting(), lambda: large)
    assert tried.explanation == repr([(n, 400_000) for n in range(8)])


@pytest.mark.parametrize(("more", "failure"), [(0, ""), (1, "answer_too_large")])
async def test_an_answer_as_large_as_may_be(more: int, failure: str) -> None:
    room = LIMITS.answer_bytes - len('{"rows":[{"value":""}]}')
    one = candidate(judging("return no_data('x')"))
    tried = await both(one, setting(), lambda: depth("x" * (room + more)))
    assert tried.failure == failure
    assert len(tried.asked[0].body) == (0 if failure else LIMITS.answer_bytes)


async def test_series_of_a_usual_size() -> None:
    body = (
        "found = context.answer(queries(warehouse, timestamp, context)[0])[0]\n"
        "return conclude([compare('sum', fsum(valid(found.values)), '>', 1.5)], 'x')"
    )
    text_of = "from math import fsum\nfrom triage.tool_api import valid\n" + judging(body)
    values = [0.1 * n for n in range(60)] + [nan]
    tried = await both(candidate(text_of), setting(), lambda: Given({DEPTH: series(*values)}))
    assert tried.value == "true"


async def test_a_site_of_another_zone_and_time() -> None:
    one = candidate(judging("return no_data(context.wall_clock(timestamp).isoformat())"))
    zones = ("Asia/Kolkata", "Australia/Lord_Howe", "UTC", "Africa/Casablanca")
    some: list[tuple[Setting, Given]] = [
        (
            Setting(
                type(SITE)(name="x", zone=zone, units={}, facts={}),
                {},
                datetime(2026, month, 28, 3, 30, 15, 250_000, UTC),
            ),
            depth(),
        )
        for zone in zones
        for month in range(1, 13)
    ]
    here = await in_process(one).run(one, some)
    async with in_sandbox() as trials:
        there = await trials.run(one, some)
    assert [each.explanation for each in there] == [each.explanation for each in here]


async def test_a_sandbox_that_is_closed() -> None:
    async with in_sandbox() as trials:
        pass
    with pytest.raises(SandboxFailed, match="closed"):
        await trials.run(candidate(), [(setting(), depth())])
