"""The gates that judge figures, on trials whose outcome is written down: no clock, no sandbox."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime

import pytest

from tests.unit.maker.gate_world import ALL, HELDOUT, TRAIN, candidate, detail, failing, settings
from triage.errors import FallbackFailure, ToolFailure
from triage.maker.gates import (
    GATES,
    MIN_HELDOUT,
    NOTHING,
    ActiveVersion,
    Allowed,
    CandidateGates,
)
from triage.maker.model import Gate, Mismatch, Score
from triage.tool_api import samples
from triage.trial.model import FAILED, Answers, Candidate, Setting, Told, Tried

QUERY = samples("metrics", "depth", datetime(2026, 6, 1, tzinfo=UTC), 300)
Says = Callable[[Setting], Tried]


class Written:
    """A `Trials` whose outcomes are written down, by the candidate's text."""

    def __init__(self, says: Says, others: dict[str, Says] | None = None) -> None:
        self._says = says
        self._others = others or {}

    async def run(
        self, candidate: Candidate, settings: Sequence[tuple[Setting, Answers]]
    ) -> list[Tried]:
        says = self._others.get(candidate.text, self._says)
        return [says(setting) for setting, _ in settings]


def right(setting: Setting) -> Tried:
    found = next(
        case
        for case in ALL
        if case.entity == setting.entity and case.timestamp.time() == setting.timestamp.time()
    )
    return Tried(found.expected, setting.entity, asked=(Told(QUERY, b'{"rows":[]}'),))


def scored(
    passed: int = 12,
    total: int = 12,
    *,
    p95_ms: float = 5.0,
    max_queries: int = 2,
    mismatches: tuple[Mismatch, ...] = (),
) -> Score:
    return Score(passed, total, {}, 1.0, p95_ms, max_queries, mismatches)


async def checked(
    *,
    train: Score | None = None,
    heldout: Score | None = None,
    active: ActiveVersion | None = None,
    says: Says = right,
    others: dict[str, Says] | None = None,
    cases: Sequence[object] = TRAIN,
    heldout_cases: Sequence[object] = HELDOUT,
    budget_ms: float = 250.0,
    allowed: Allowed = NOTHING,
) -> list[Gate]:
    gates = CandidateGates(
        active=active,
        cases=cases,  # type: ignore[arg-type]
        heldout_cases=heldout_cases,  # type: ignore[arg-type]
        trials=Written(says, others),
        settings=settings,
        budget_ms=budget_ms,
        allowed=allowed,
    )
    return await gates.check(candidate(), train or scored(), heldout or scored())


def mismatch(failure: str, detail: str) -> Mismatch:
    return Mismatch(TRAIN[0], Tried(FAILED, failure=failure, detail=detail), {}, ())


async def test_all_pass_but_the_one_that_reads_data() -> None:
    """What always says what is right, without looking, is not let through."""
    gates = await checked()
    assert tuple(gate.name for gate in gates) == GATES[:-1]
    assert failing(gates) == {"scaled"}
    assert all(gate.detail for gate in gates)


# --- budget ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("train_ms", "heldout_ms", "passes"),
    [(250.0, 250.0, True), (250.1, 1.0, False), (1.0, 250.1, False), (0.0, 0.0, True)],
)
async def test_budget(train_ms: float, heldout_ms: float, passes: bool) -> None:
    gates = await checked(train=scored(p95_ms=train_ms), heldout=scored(p95_ms=heldout_ms))
    assert ("budget" not in failing(gates)) is passes
    said = detail(gates, "budget")
    assert f"{max(train_ms, heldout_ms):.1f} ms" in said
    assert "budget 250 ms" in said


async def test_a_case_that_the_sandbox_ended_is_over_budget() -> None:
    ended = mismatch(FallbackFailure.SANDBOX.value, "the run was ended because it took longer")
    gates = await checked(heldout=scored(11, mismatches=(ended,)))
    assert "budget" in failing(gates)
    assert f"1 cases were ended by the sandbox, such as {TRAIN[0].case_id}" in detail(
        gates, "budget"
    )


async def test_a_case_that_raised_is_not_over_budget() -> None:
    raised = mismatch(ToolFailure.RAISED.value, "line 3: ValueError")
    assert "budget" not in failing(await checked(train=scored(11, mismatches=(raised,))))


# --- sources -----------------------------------------------------------------------------------


async def test_an_undeclared_source_in_a_case_of_the_score() -> None:
    asked = mismatch(ToolFailure.UNDECLARED_SOURCE.value, "asks source 'other'")
    gates = await checked(train=scored(11, mismatches=(asked,)))
    assert "sources" in failing(gates)
    assert "asks source 'other'" in detail(gates, "sources")


# --- queries -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("recorded", "train", "heldout", "passes"),
    [(2, 2, 2, True), (2, 3, 2, False), (2, 1, 3, False), (3, 2, 3, True)],
)
async def test_queries(recorded: int, train: int, heldout: int, passes: bool) -> None:
    gates = await checked(
        train=scored(max_queries=train),
        heldout=scored(max_queries=heldout),
        active=ActiveVersion(4, candidate(), recorded),
    )
    assert ("queries" not in failing(gates)) is passes
    said = f"asks at most {max(train, heldout)}, version 4 at most {recorded}"
    assert said in detail(gates, "queries")


async def test_an_active_version_that_nobody_counted_is_counted() -> None:
    gates = await checked(
        train=scored(max_queries=1),
        heldout=scored(max_queries=1),
        active=ActiveVersion(4, candidate(), 0),
    )
    assert detail(gates, "queries") == "asks at most 1, version 4 at most 1"
    assert "queries" not in failing(gates)


async def test_more_queries_with_a_reason() -> None:
    gates = await checked(
        train=scored(max_queries=5),
        active=ActiveVersion(4, candidate(), 2),
        allowed=Allowed(more_queries="two lanes"),
    )
    assert "queries" not in failing(gates)
    assert detail(gates, "queries").endswith("allowed, because two lanes")


async def test_a_first_version_asks_what_it_needs() -> None:
    gates = await checked(train=scored(max_queries=9))
    assert "queries" not in failing(gates)


async def test_nothing_to_count_on() -> None:
    gates = await checked(active=ActiveVersion(4, candidate(), 0), heldout_cases=())
    assert "could not be checked" in detail(gates, "queries")
    assert {"queries", "heldout"} <= failing(gates)


# --- held-out ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("passed", "passes"), [(90, True), (89, False), (100, True), (0, False)])
async def test_a_first_version(passed: int, passes: bool) -> None:
    gates = await checked(heldout=scored(passed, 100))
    assert ("heldout" not in failing(gates)) is passes
    assert MIN_HELDOUT == 0.9


def wrong_in(count: int) -> Says:
    worse = {case.timestamp for case in HELDOUT[:count]}

    def says(setting: Setting) -> Tried:
        said = right(setting)
        return said._replace(value="failed") if setting.timestamp in worse else said

    return says


@pytest.mark.parametrize(
    ("passed", "active_wrong", "passes"),
    [(11, 1, True), (11, 0, False), (12, 0, True), (3, 9, True), (3, 8, False)],
)
async def test_beside_the_active_version(passed: int, active_wrong: int, passes: bool) -> None:
    """On the same cases; and then also one that is far below what a first version needs."""
    active = ActiveVersion(4, candidate("# the active one"), 2)
    gates = await checked(
        heldout=scored(passed), active=active, others={"# the active one": wrong_in(active_wrong)}
    )
    assert ("heldout" not in failing(gates)) is passes
    assert f"version 4 {12 - active_wrong}" in detail(gates, "heldout")


async def test_no_held_out_cases_is_no_pass() -> None:
    gates = await checked(heldout=scored(0, 0), heldout_cases=())
    assert detail(gates, "heldout") == "could not be checked: there are no held-out cases"
    assert "heldout" in failing(gates)


async def test_no_cases_at_all_is_no_pass() -> None:
    gates = await checked(train=scored(0, 0), heldout=scored(0, 0), cases=(), heldout_cases=())
    assert failing(gates) == set(GATES[:-1]) - {"policy", "queries"}
    assert {gate.name for gate in gates if "could not be checked" in gate.detail} == failing(gates)


# --- relations ---------------------------------------------------------------------------------


async def test_no_case_that_was_answered() -> None:
    def fails(_: Setting) -> Tried:
        return Tried(FAILED, failure=ToolFailure.RAISED.value, detail="line 1: KeyError")

    gates = await checked(says=fails)
    assert {"shifted", "renamed", "scaled"} <= failing(gates)
    for name in ("shifted", "renamed", "scaled"):
        assert "could not be checked" in detail(gates, name)


def test_the_note_keeps_every_reason() -> None:
    allowed = Allowed(more_queries="two lanes", sites="FC3 has no chutes")
    assert (
        allowed.note == "more queries allowed: two lanes; names of sites allowed: FC3 has no chutes"
    )
    assert Allowed().note == ""
