"""Every tool of the dock says in the sandbox what it says in process, of recorded answers."""

from __future__ import annotations

from collections import Counter
from time import monotonic

import pytest

from tests.unit.dock_tools.dock_world import Case, World, nodes, profile_of, sop, source_of
from tests.unit.dock_tools.test_every_tool import CASES
from tests.unit.trial.trial_world import LIMITS, Given, in_sandbox, shown, tool_of
from triage.model.case import LabelledCase, RecordedAnswer, case_id
from triage.model.decision import NodeId
from triage.model.query import query_document
from triage.trial.answers import CaseAnswers, setting_of
from triage.trial.in_process import ApprovedTrials
from triage.trial.model import Candidate, Setting, Tried


def candidate_of(node: str) -> Candidate:
    text = source_of(node).read_text(encoding="utf-8")
    return Candidate(NodeId(node), text, sop().nodes[NodeId(node)].sources)


def labelled(case: Case, tried: Tried) -> LabelledCase:
    """With the answers that were asked for when it was tried."""
    world = case.world
    return LabelledCase(
        case_id=case_id(case.node, world.site, world.at, world.entity, world.params),
        node=NodeId(case.node),
        warehouse=world.site,
        timestamp=world.at,
        expected=case.truth,
        entity=world.entity,
        params=world.params,
        subject=case.subject,
        answers=tuple(
            RecordedAnswer(query_document(told.query), told.body) for told in tried.asked
        ),
    )


def set_in(world: World) -> Setting:
    profile = profile_of(world)
    return Setting(profile.site, profile.params, world.at, world.entity)


@pytest.mark.parametrize("node", nodes())
async def test_dock(node: str) -> None:
    one = candidate_of(node)
    cases = [case for case in CASES if case.node == node]
    here = ApprovedTrials(tool_of(one), limits=LIMITS, monotonic=monotonic)
    live = await here.run(one, [(set_in(case.world), Given(case.world.answer)) for case in cases])
    assert Counter(tried.value for tried in live) == Counter(case.truth for case in cases)

    recorded = [
        (setting_of(said, profile_of(case.world)), CaseAnswers(said))
        for case, tried in zip(cases, live, strict=True)
        for said in [labelled(case, tried)]
    ]
    again = await here.run(one, recorded)
    async with in_sandbox() as trials:
        there = await trials.run(one, recorded)
        backwards = await trials.run(one, recorded[::-1])
    assert [shown(tried) for tried in there] == [shown(tried) for tried in again]
    assert [shown(tried) for tried in backwards[::-1]] == [shown(tried) for tried in there]
    assert [tried.value for tried in there] == [case.truth for case in cases]
    assert all(tried.asked and tried.elapsed_ms > 0 for tried in there)
