"""What holds of all 44: the import policy, spellings, and that each was seen to say everything."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.dock_tools import (
    test_cells,
    test_chutes,
    test_equipment,
    test_eyes,
    test_grippers,
    test_loop,
    test_warehouse_departures,
    test_warehouse_dock,
    test_warehouse_flow,
    test_warehouse_people,
)
from tests.unit.dock_tools.dock_world import (
    NOW,
    Case,
    World,
    context_of,
    judge,
    nodes,
    profile_of,
    sop,
    source_of,
    tool,
    utc,
)
from triage.library.policy import check_source
from triage.model.decision import NodeId
from triage.model.query import Call, Rows, Samples
from triage.tool_api import asset_id

CASES: list[Case] = [
    case
    for module in (
        test_cells,
        test_chutes,
        test_equipment,
        test_eyes,
        test_grippers,
        test_loop,
        test_warehouse_departures,
        test_warehouse_dock,
        test_warehouse_flow,
        test_warehouse_people,
    )
    for case in module.CASES
]
SOURCES = {Samples: "metrics", Rows: "warehouse", Call: "equipment"}
FRESH = utc(NOW)
QUIET: dict[str, dict[str, Any]] = {
    "safety_inputs": {"*": {"as_of": FRESH, "inputs": []}},
    "fault_code": {"*": {"as_of": FRESH, "code": 0, "latched_at": None}},
    "resets": {"*": {"as_of": FRESH, "code": 0, "protective": False, "resets": []}},
    "carriers": {"*": {"as_of": FRESH, "total": 480, "disabled": 0}},
    "doors": {"*": {"as_of": FRESH, "doors": []}},
    "eye_margin": {"*": {"as_of": FRESH, "eyes": []}},
    "routes": {"*": {"as_of": FRESH, "routes": []}},
}
PREFIXES = ("CH", "RC", "PE", "INF", "STG", "DD", "ST", "DRV", "LS", "ZN", "PR", "SG", "AIR", "MS")
WORDS = ("Chute", "cell", "ROBOT", "Eye", "infeed", "Lane", "staging", "Door", "tunnel", "Sorter")

spellings = st.builds(
    "{}{}{}{}".format,
    st.sampled_from((*PREFIXES, *WORDS, "at ", "")),
    st.sampled_from(("-", "_", " ", "", " - ", "\t", "--")),
    st.one_of(st.integers(0, 10**30).map(str), st.sampled_from(("007", "", "A", "²", "٣", "-1"))),
    st.sampled_from(("", " (left)", "\n", "/2")),
)
entities = st.one_of(spellings, st.text(max_size=40))


def test_there_is_a_tool_for_every_node() -> None:
    assert len(nodes()) == 44
    assert [node for node in nodes() if not source_of(node).is_file()] == []


@pytest.mark.parametrize("node", nodes())
def test_import_policy(node: str) -> None:
    path = source_of(node)
    checked = check_source(path.read_bytes(), file=path.name, node=node, dynamic=False)
    assert [str(finding) for finding in checked.findings] == []


@pytest.mark.parametrize("node", nodes())
def test_every_verdict_was_seen(node: str) -> None:
    seen = Counter(case.truth for case in CASES if case.node == node)
    assert set(seen) == {"true", "false", "no_data"}
    assert seen.total() >= 7


@pytest.mark.parametrize("node", nodes())
@settings(max_examples=40, deadline=None)
@given(entity=entities, site=st.sampled_from(("FC1", "FC2", "FC5", "somewhere else")))
def test_any_spelling(node: str, entity: str, site: str) -> None:
    """Nothing raises, queries are the same twice and keep to the node's sources, and what one
    spelling is told another is told too."""
    world = World(entity=entity, site=site, calls=QUIET)
    first, again = (tool(node).queries(site, NOW, context_of(world)) for _ in range(2))
    assert first
    assert first == again
    sources = {query.source for query in first}
    assert sources <= set(sop().nodes[NodeId(node)].sources)
    assert all(query.source == SOURCES[type(query)] for query in first)
    verdict = judge(node, world)
    facts = profile_of(world).site.facts
    one = asset_id(entity, words=facts["id_words"], width=facts["id_width"])
    assert judge(node, replace(world, entity=one)) == verdict


@pytest.mark.parametrize("node", nodes())
def test_one_query_text_for_all_alerts(node: str) -> None:
    """SQL never holds what an alert says: its values are parameters."""
    texts = [
        {query.sql for query in asked if isinstance(query, Rows)}
        for entity in ("", "CH-007", "Lane 3", "RC-01", "'; DROP TABLE ticket; --")
        for asked in [tool(node).queries("FC1", NOW, context_of(World(entity=entity)))]
    ]
    assert set().union(*texts) == max(texts, key=len)
