"""Shadows: what is compared, what is dropped and counted, and what trouble does to nobody else."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import NoReturn

import pytest

from tests.unit.evaluation.virtual_time import START, on_virtual_time, settled
from tests.unit.evaluation.world import FIRED_AT, alert, sample
from tests.unit.watching.shadow_world import Bench, Log, decisions, shadow, world
from triage.engine.engine import as_resolved
from triage.errors import SandboxFailed
from triage.model.decision import AnsweredBy, Outcome
from triage.ports import Compared
from triage.watching import shadow as module
from triage.watching.shadow import AT_ONCE, IDLE_S


def seen(bench: Bench, result: Compared, node: str = "a") -> float:
    return sample(bench.metrics, "triage_shadow_comparisons_total", node=node, result=result.value)


# --- what is compared -----------------------------------------------------------------------------


@on_virtual_time
async def test_every_result_of_a_tool_with_a_shadow_is_compared() -> None:
    bench = Bench()
    bench.put(shadow("a"), shadow("c", "15 c"))
    values = [{"a": 20.0, "b": 20.0, "c": level} for level in (20.0, 12.0, 9.0)]
    async with bench.running() as shadows:
        for one, decided, around in await decisions(3, lambda n: values[n]):
            shadows.offer(one, decided, around.snapshot)
        await shadows.settled()

    assert bench.log.results() == {"a": ["agrees"] * 3, "c": ["agrees", "differs", "agrees"]}
    differing = next(one for one in bench.log.written if one.result is Compared.DIFFERS)
    assert differing.alert_id == f"{1:032x}"
    assert (differing.active["value"], differing.shadow["value"]) == ("true", "false")
    assert seen(bench, Compared.DIFFERS, "c") == 1
    assert seen(bench, Compared.AGREES) == 3


@on_virtual_time
async def test_alerts_come_first_between_any_two_decisions() -> None:
    eased = 0

    async def ease() -> None:
        nonlocal eased
        eased += 1

    bench = Bench(ease=ease)
    bench.put(shadow("a"))
    async with bench.running() as shadows:
        for one, decided, around in await decisions(3):
            shadows.offer(one, decided, around.snapshot)
        await shadows.settled()
    assert len(bench.log.written) == 3
    assert eased == 2 * 3 + 1  # as they are made ready, as they are compared, and to be written


@on_virtual_time
async def test_a_comparison_holds_both_verdicts_and_what_they_rest_on() -> None:
    bench = Bench()
    bench.put(shadow("c", "15 c a"))
    ((one, decided, around),) = await decisions(1, lambda _: {"a": 20, "b": 20, "c": 12})
    async with bench.running() as shadows:
        shadows.offer(one, decided, around.snapshot)
        await shadows.settled()
    (found,) = bench.log.written
    result = decided.decision.nodes[2]
    assert found.pair == (
        "c",
        2,
        bench.tools[result.node].sha256,
        result.tool_version,
        result.tool_sha256,
    )
    assert (found.at, found.site) == (START, "north")
    of_a, of_c = (decided.decision.nodes[n].asked[0].answer_sha256 for n in (0, 2))
    assert found.active["answers"] == [of_c]
    assert found.shadow["answers"] == [of_c, of_a]
    assert found.evidence == (of_c, of_a)
    assert found.active["explanation"] == "looked"
    assert [clause["threshold"] for clause in found.active["clauses"]] == [10]
    assert [clause["threshold"] for clause in found.shadow["clauses"]] == [15, 15]


@on_virtual_time
async def test_a_shadow_is_asked_as_the_tool_was() -> None:
    bench = Bench()
    bench.put(shadow("c"))
    one = replace(alert(labels={"line": "l1"}), entity="unit-9")
    around = world({"a": 20, "b": 20, "c": 20})
    decided = await around.decide(one)
    async with bench.running() as shadows:
        shadows.offer(one, decided, around.snapshot)
        await shadows.settled()
    ((candidate, (setting,)),) = bench.trials.calls
    assert (candidate.node, candidate.text, candidate.sources) == ("c", "10.0 c", ("memory",))
    assert (setting.site.name, setting.entity, setting.labels) == (
        "north",
        "unit-9",
        {"line": "l1"},
    )
    assert setting.timestamp == FIRED_AT
    assert set(setting.parents) == {"a", "b"}, "those of its own layer have not answered"


@on_virtual_time
async def test_nothing_else_is_compared() -> None:
    bench = Bench()
    ((one, decided, around),) = await decisions(1)
    decision = decided.decision
    by_fallback = tuple(
        result._replace(answered_by=AnsweredBy.FALLBACK) for result in decision.nodes
    )
    failed = tuple(result._replace(verdict=None) for result in decision.nodes)
    same = shadow("a")._replace(sha256=decision.nodes[0].tool_sha256)
    for tools, told in (
        ((), decision),
        ((shadow("elsewhere"),), decision),
        ((same,), decision),
        ((shadow("a"),), as_resolved(decision)),
        ((shadow("a"),), replace(decision, outcome=Outcome.COALESCED)),
        ((shadow("a"),), replace(decision, nodes=by_fallback)),
        ((shadow("a"),), replace(decision, nodes=failed)),
        ((shadow("a"),), replace(decision, nodes=())),
    ):
        bench.put(*tools)
        async with bench.running() as shadows:
            shadows.offer(one, replace(decided, decision=told), around.snapshot)
            assert shadows.waiting == 0
            await shadows.settled()
    assert bench.log.written == []
    assert bench.trials.opened == 0, "nobody pays for a sandbox without a shadow"


@on_virtual_time
async def test_what_was_not_recorded_or_fails_says_nothing_of_agreement() -> None:
    bench = Bench()
    bench.put(shadow("a", "10 a unheard"), shadow("b", "rubbish b"))
    ((one, decided, around),) = await decisions(1)
    bench.trials.failures = []
    async with bench.running() as shadows:
        shadows.offer(one, decided, around.snapshot)
        await shadows.settled()
    # `rubbish` is no limit: the trial itself crashed, which is nobody's verdict.
    assert bench.log.results() == {"a": ["unrecorded"], "b": ["dropped"]}
    found = next(one for one in bench.log.written if one.pair.node == "a")
    assert found.shadow["failure"] == "unrecorded"
    assert found.shadow["answers"] == [decided.decision.nodes[0].asked[0].answer_sha256]
    assert seen(bench, Compared.UNRECORDED) == 1


@on_virtual_time
async def test_one_session_serves_all_that_wait_for_a_version() -> None:
    bench = Bench()
    bench.put(shadow("a"), shadow("b"))
    async with bench.running() as shadows:
        for one, decided, around in await decisions(AT_ONCE + 1):
            shadows.offer(one, decided, around.snapshot)
        await shadows.settled()
    assert [(call[0].node, len(call[1])) for call in bench.trials.calls] == [
        ("a", AT_ONCE),
        ("b", AT_ONCE),
        ("a", 1),
        ("b", 1),
    ]
    assert (bench.trials.opened, bench.trials.closed) == (1, 1)


@on_virtual_time
async def test_a_session_waits_a_moment_for_more_and_no_longer_than_it_takes() -> None:
    bench = Bench(linger_s=1.0)
    bench.put(shadow("a"))
    made = await decisions(AT_ONCE + 2)
    loop = asyncio.get_running_loop()
    async with bench.running() as shadows:
        for one, decided, around in made[:2]:
            shadows.offer(one, decided, around.snapshot)
            await asyncio.sleep(0.4)
        await shadows.settled()
        assert loop.time() == pytest.approx(1.0)
        for one, decided, around in made[2:]:
            shadows.offer(one, decided, around.snapshot)
        await shadows.settled()
        assert loop.time() == pytest.approx(1.0), "so many need not wait"
    assert [len(settings) for _, settings in bench.trials.calls] == [2, AT_ONCE]


@on_virtual_time
async def test_a_moment_is_over_before_what_may_wait_is_full() -> None:
    bench = Bench(linger_s=1.0, max_waiting=4)
    bench.put(shadow("a"))
    async with bench.running() as shadows:
        for one, decided, around in await decisions(8):
            shadows.offer(one, decided, around.snapshot)
            await settled()
        await shadows.settled()
    assert bench.log.results() == {"a": ["agrees"] * 8}


@on_virtual_time
async def test_a_moment_is_over_before_its_evidence_is_too_much(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = await decisions(4)
    size = sum(map(len, made[0][1].evidence.values()))
    monkeypatch.setattr(module, "MAX_WAITING_BYTES", 2 * size)
    bench = Bench(linger_s=1.0)
    bench.put(shadow("a"))
    async with bench.running() as shadows:
        for one, decided, around in made:
            shadows.offer(one, decided, around.snapshot)
            await settled()
        await shadows.settled()
    assert bench.log.results() == {"a": ["agrees"] * 4}


@on_virtual_time
async def test_what_one_version_came_to_is_written_before_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "KEPT_FOR_THE_STORE", AT_ONCE)
    bench = Bench()
    bench.put(shadow("a"), shadow("b"), shadow("c"))
    async with bench.running() as shadows:
        for one, decided, around in await decisions(AT_ONCE):
            shadows.offer(one, decided, around.snapshot)
        await shadows.settled()
    assert bench.log.results() == {name: ["agrees"] * AT_ONCE for name in "abc"}


@on_virtual_time
async def test_a_sandbox_that_nothing_comes_for_is_closed_until_something_does() -> None:
    bench = Bench()
    bench.put(shadow("a"))
    made = await decisions(2)
    async with bench.running() as shadows:
        for one, decided, around in made:
            shadows.offer(one, decided, around.snapshot)
            await shadows.settled()
            assert bench.trials.opened == bench.trials.closed + 1
            await asyncio.sleep(IDLE_S + 1)
            assert bench.trials.opened == bench.trials.closed
    assert bench.trials.opened == 2
    assert bench.log.results() == {"a": ["agrees"] * 2}


@on_virtual_time
async def test_a_reload_takes_another_shadow_up_at_once() -> None:
    bench = Bench()
    made = await decisions(2, lambda _: {"a": 12, "b": 20, "c": 20})
    bench.put(shadow("a"))
    async with bench.running() as shadows:
        shadows.offer(made[0][0], made[0][1], made[0][2].snapshot)
        bench.put(shadow("a", "15 a", version=3))
        shadows.offer(made[1][0], made[1][1], made[1][2].snapshot)
        await shadows.settled()
    assert [(one.pair.shadow_version, one.result.value) for one in bench.log.written] == [
        (2, "agrees"),
        (3, "differs"),
    ]


# --- what there is no time for --------------------------------------------------------------------


@on_virtual_time
async def test_what_does_not_fit_is_dropped_and_counted() -> None:
    bench = Bench(max_waiting=3)
    bench.put(shadow("a"), shadow("b"))
    bench.trials.gate = asyncio.Event()
    made = await decisions(AT_ONCE + 6)
    async with bench.running() as shadows:
        shadows.offer(made[0][0], made[0][1], made[0][2].snapshot)
        await settled()
        for one, decided, around in made[1:]:
            shadows.offer(one, decided, around.snapshot)
        assert shadows.waiting == 3
        assert sample(bench.metrics, "triage_shadow_waiting") == 3
        assert seen(bench, Compared.DROPPED) == AT_ONCE + 2
        bench.trials.gate.set()
        await shadows.settled()
    for node in "ab":
        found = bench.log.results()[node]
        assert (found.count("agrees"), found.count("dropped")) == (4, AT_ONCE + 2)
    assert sample(bench.metrics, "triage_shadow_waiting") == 0


@on_virtual_time
async def test_evidence_that_waits_is_bounded_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    made = await decisions(3)
    size = sum(map(len, made[0][1].evidence.values()))
    monkeypatch.setattr(module, "MAX_WAITING_BYTES", 2 * size)
    bench = Bench()
    bench.put(shadow("a"))
    async with bench.running() as shadows:
        for one, decided, around in made:
            shadows.offer(one, decided, around.snapshot)
        assert shadows.waiting == 2
        await shadows.settled()
        for one, decided, around in made[:2]:
            shadows.offer(one, decided, around.snapshot)
        await shadows.settled()
    assert seen(bench, Compared.DROPPED) == 1, "what was compared waits no more"
    monkeypatch.setattr(module, "MAX_WAITING_BYTES", 1)
    alone = bench.shadows()
    alone.offer(made[0][0], made[0][1], made[0][2].snapshot)
    assert alone.waiting == 1, "one that is larger than all there may be still gets its turn"


@on_virtual_time
async def test_what_is_left_at_the_end_is_dropped_written_and_nothing_waited_for() -> None:
    bench = Bench()
    bench.put(shadow("a"))
    bench.trials.gate = asyncio.Event()  # a shadow that does not end
    shadows = bench.shadows()
    running = asyncio.create_task(shadows.run())
    for one, decided, around in await decisions(AT_ONCE + 5):
        shadows.offer(one, decided, around.snapshot)
    await settled()
    shadows.stop()
    await running
    assert bench.log.results() == {"a": ["dropped"] * (AT_ONCE + 5)}
    assert bench.trials.closed == 1
    assert shadows.waiting == 0

    ((one, decided, around),) = await decisions(1)
    shadows.offer(one, decided, around.snapshot)
    assert shadows.waiting == 0


# --- trouble --------------------------------------------------------------------------------------


@on_virtual_time
async def test_a_sandbox_in_trouble_is_begun_anew_ever_more_rarely() -> None:
    bench = Bench(max_waiting=2)
    bench.put(shadow("a"))
    bench.trials.cannot_open = 3
    bench.trials.failures = [SandboxFailed("the worker was taken")]
    loop = asyncio.get_running_loop()
    async with bench.running() as shadows:
        ((one, decided, around),) = await decisions(1)
        shadows.offer(one, decided, around.snapshot)
        await shadows.settled()
        # 1 + 2 + 4 s until it opens, and then its one run fails.
        assert loop.time() == pytest.approx(7)
        shadows.offer(one, decided, around.snapshot)
        await shadows.settled()
        assert loop.time() == pytest.approx(15)
    # What was under way is dropped; its record comes with what follows.
    assert bench.log.results() == {"a": ["agrees", "dropped"]}
    assert sample(bench.metrics, "triage_shadow_restarts_total") == 4
    assert (bench.trials.opened, bench.trials.closed) == (2, 2)


@on_virtual_time
async def test_nothing_waits_for_ever_for_a_sandbox_that_does_not_come_back() -> None:
    bench = Bench()
    bench.put(shadow("a"))
    bench.trials.cannot_open = 7
    loop = asyncio.get_running_loop()
    async with bench.running() as shadows:
        made = await decisions(3)
        for one, decided, around in made[:2]:
            shadows.offer(one, decided, around.snapshot)
        await shadows.settled()
        assert loop.time() == pytest.approx(1 + 2 + 4 + 8 + 16 + 32)
        assert bench.log.results() == {"a": ["dropped"] * 2}
        shadows.offer(made[2][0], made[2][1], made[2][2].snapshot)
        await shadows.settled()
    assert bench.log.results() == {"a": ["dropped", "dropped", "agrees"]}


@on_virtual_time
async def test_one_that_crashes_costs_its_comparison_and_no_other() -> None:
    bench = Bench()
    bench.put(shadow("a"))
    bench.trials.failures = [RuntimeError("a fault of ours")]
    made = await decisions(2)
    async with bench.running() as shadows:
        for one, decided, around in made:
            shadows.offer(one, decided, around.snapshot)
            await shadows.settled()
    assert bench.log.results() == {"a": ["dropped", "agrees"]}


@on_virtual_time
async def test_what_the_store_does_not_take_is_written_with_the_next() -> None:
    bench = Bench(log=Log(failures=1))
    bench.put(shadow("a"))
    made = await decisions(2)
    async with bench.running() as shadows:
        for one, decided, around in made:
            shadows.offer(one, decided, around.snapshot)
            await shadows.settled()
    assert [one.alert_id for one in bench.log.written] == [made[0][0].alert_id, made[1][0].alert_id]
    assert bench.log.calls == [2]


@on_virtual_time
async def test_what_the_store_did_not_take_is_tried_once_more_at_the_end() -> None:
    bench = Bench(log=Log(failures=1))
    bench.put(shadow("a"))
    ((one, decided, around),) = await decisions(1)
    async with bench.running() as shadows:
        shadows.offer(one, decided, around.snapshot)
        await shadows.settled()
        assert bench.log.written == []
    assert bench.log.results() == {"a": ["agrees"]}


@on_virtual_time
async def test_a_fault_outside_of_a_comparison_ends_the_task() -> None:
    """As that of any side task: the daemon stops."""
    bench = Bench()
    bench.put(shadow("a"))
    shadows = bench.shadows()
    shadows._trials = _broken  # noqa: SLF001 - a fault of ours
    ((one, decided, around),) = await decisions(1)
    shadows.offer(one, decided, around.snapshot)
    with pytest.raises(ZeroDivisionError):
        await shadows.run()


def _broken() -> NoReturn:
    raise ZeroDivisionError


@on_virtual_time
async def test_several_workers_run_at_once() -> None:
    bench = Bench(workers=2)
    bench.put(shadow("a"))
    bench.trials.gate = asyncio.Event()
    async with bench.running() as shadows:
        for one, decided, around in await decisions(2 * AT_ONCE):
            shadows.offer(one, decided, around.snapshot)
        await settled()
        assert len(bench.trials.calls) == 2
        assert shadows.waiting == 0
        bench.trials.gate.set()
        await shadows.settled()
    assert bench.log.results() == {"a": ["agrees"] * 2 * AT_ONCE}
    assert bench.trials.opened == 2


@on_virtual_time
async def test_times_are_of_the_offer() -> None:
    bench = Bench()
    bench.put(shadow("a"))
    bench.trials.gate = asyncio.Event()
    ((one, decided, around),) = await decisions(1)
    async with bench.running() as shadows:
        shadows.offer(one, decided, around.snapshot)
        await asyncio.sleep(5)
        bench.trials.gate.set()
        await shadows.settled()
    (found,) = bench.log.written
    assert found.at == START
    assert found.at + timedelta(seconds=5) == START + timedelta(
        seconds=asyncio.get_running_loop().time()
    )
