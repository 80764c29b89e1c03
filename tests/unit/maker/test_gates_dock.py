"""Tools of the dock, on what their unit tests hold: an honest tool passes every gate."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import pytest
import pytest_asyncio

from tests.unit.dock_tools.dock_world import Case as DockCase
from tests.unit.dock_tools.dock_world import context_of, profile_of, sop, source_of, tool
from tests.unit.dock_tools.test_every_tool import CASES
from tests.unit.maker.gate_world import failing
from tests.unit.trial.trial_world import in_sandbox
from triage.maker.agreement import CaseTrial, agreement
from triage.maker.gates import ActiveVersion, CandidateGates
from triage.maker.scoring import Settings, score
from triage.model.case import LabelledCase, recorded
from triage.model.decision import NodeId
from triage.model.query import encode_answer
from triage.trial.answers import CaseAnswers, setting_of
from triage.trial.model import Answers, Candidate, Setting, Trials

NODES = (
    "rc_tracking_slip",  # counters and gauges
    "obs_chutes_full",  # states
    "obs_jam_real",
    "rc_labor_short",  # SQL, slots of a quarter of an hour
    "obs_departure_short",
    "con_tech_free",  # SQL with local times
    "rc_item_mix_hard",  # and four weeks back, over a change of clocks
    "con_ticket_open",
    "con_reset_allowed",  # MCP
    "rc_door_fault",
    "rc_safety_stop",
    "rc_trailer_absent",  # metrics and SQL
)


def labelled(number: int, case: DockCase) -> LabelledCase:
    world = case.world
    asked = dict.fromkeys(tool(case.node).queries(world.site, world.at, context_of(world)))
    return LabelledCase(
        f"{number:012x}",
        NodeId(case.node),
        world.site,
        world.at,
        case.truth,
        entity=world.entity,
        params=world.params,
        subject=case.subject,
        answers=tuple(recorded(query, encode_answer(world.answer(query))) for query in asked),
    )


def settings_of(cases: Sequence[DockCase]) -> Settings:
    worlds = {f"{number:012x}": case.world for number, case in enumerate(cases)}

    def settings(case: LabelledCase) -> tuple[Setting, Answers]:
        return setting_of(case, profile_of(worlds[case.case_id])), CaseAnswers(case)

    return settings


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def trials() -> AsyncIterator[Trials]:
    async with in_sandbox() as sandbox:
        yield sandbox


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("node", NODES)
async def test_a_tool_of_the_dock(node: str, trials: Trials) -> None:
    made = [case for case in CASES if case.node == node]
    cases = [labelled(number, case) for number, case in enumerate(made)]
    settings = settings_of(made)
    train, heldout = cases[::2], cases[1::2]
    text, owner = source_of(node).read_text(encoding="utf-8"), sop().nodes[NodeId(node)]
    one = Candidate(owner.node, text, owner.sources)
    gates = await CandidateGates(
        active=ActiveVersion(1, one),
        cases=train,
        heldout_cases=heldout,
        trials=trials,
        settings=settings,
        budget_ms=10_000.0,
    ).check(
        one,
        await score(one, train, trials, settings),
        await score(one, heldout, trials, settings),
    )
    assert failing(gates) == set(), [gate for gate in gates if not gate.passed]
    found = await agreement(
        one, [CaseTrial(case.case_id, *settings(case)) for case in cases], trials
    )
    assert found.gate.passed, found.gate.detail
    assert found.compared == len(cases)
