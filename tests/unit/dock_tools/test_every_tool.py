"""What holds of all 44: the import policy, spellings, and that each was seen to say everything."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import timedelta
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
    params_of,
    profile_of,
    sop,
    source_of,
    tool,
    utc,
)
from triage.library.policy import check_source
from triage.model.decision import NodeId
from triage.model.query import Call, Rows, Samples
from triage.model.verdict import Clause, Verdict
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


def told(verdict: Verdict) -> tuple[str, tuple[Clause, ...]]:
    return verdict.value.word, verdict.clauses


ONE_OF_EACH = {
    case.node: case
    for case in CASES
    if case.truth == "true" and case.world.tables and case.world.site == "FC1"
}


@pytest.mark.parametrize("case", params_of(ONE_OF_EACH.values()))
def test_rows_of_another_site(case: Case) -> None:
    """They are as good as none; what the others say is alike in both."""
    tables = case.world.tables
    elsewhere = {name: [{**row, "site": "FC9"} for row in rows] for name, rows in tables.items()}
    assert told(judge(case.node, replace(case.world, tables=elsewhere))) == told(
        judge(case.node, replace(case.world, tables={}))
    )


@pytest.mark.parametrize(
    ("site", "ago", "alive"),
    [
        ("FC1", 0, True),
        ("FC1", -1, False),
        ("FC1", 1799, True),
        ("FC1", 1800, False),
        ("FC9", 60, False),
    ],
)
@pytest.mark.parametrize("case", params_of(ONE_OF_EACH.values()))
def test_sign_of_life(case: Case, site: str, ago: float, alive: bool) -> None:
    """Of this site, and of the half hour before the lag."""
    at = case.world.at - timedelta(seconds=120 + ago)
    pulse = {"site": site, "at_utc": utc(at)}
    tables = {**case.world.tables, "feed_heartbeat": [pulse]}
    verdict = judge(case.node, replace(case.world, tables=tables))
    assert verdict.value.word == ("true" if alive else "no_data")


FIGURES: list[tuple[str, str, tuple[float, ...]]] = [
    ("con_alt_chute_free", "free", (1, 9)),
    ("con_induct_headroom", "keeping it is worse", (25, 10)),
    ("con_cpt_slack", "an hour", (60,)),
    ("con_labor_movable", "two to spare", (2, 120)),
    ("con_tech_free", "busy twice", (1,)),
    ("obs_chutes_clustered", "three of six", (6, 50)),
    ("obs_chutes_full", "under it", (24,)),
    ("obs_departure_short", "at the limit", (980,)),
    ("obs_divert_fail_elevated", "under it", (0.9,)),
    ("obs_induct_blocked", "at the limit", (30,)),
    ("obs_induct_starved", "in milliseconds", (100 * 23 / 60,)),
    ("obs_jam_real", "nothing passes", (20,)),
    ("obs_no_read_elevated", "above a usual day", (2, 2)),
    ("obs_pick_fail_elevated", "under it", (7.9,)),
    ("obs_pick_fail_single_cell", "less than that", (7, 4)),
    ("obs_recirc_elevated", "as a fraction", (7,)),
    ("obs_sorter_slow", "at the limit", (0.9,)),
    ("obs_staging_crowded", "under it", (89,)),
    ("rc_air_pressure_low", "in psi", (5.4,)),
    ("rc_carriers_out", "under it", (2.8,)),
    ("rc_divert_worn", "at both limits", (1.6, 1.6)),
    ("rc_door_fault", "stuck", (300,)),
    ("rc_door_fault", "sound", (0,)),
    ("rc_drive_overload", "load fine, hot", (50, 90)),
    ("rc_drive_overload", "in fahrenheit", (80.0555555,)),
    ("rc_gap_loss", "gaps are fine, doubles are not", (400, 4)),
    ("rc_item_mix_hard", "unknown ones do not", (30,)),
    ("rc_label_print_poor", "under thrice its share", (60, 60)),
    ("rc_labor_short", "at the limit", (0.85,)),
    ("rc_no_destination", "under it", (1.4,)),
    ("rc_photo_eye_dirty", "blocked while parcels pass", (90, 90)),
    ("rc_scan_lens_dirty", "under twice its twin", (3.9, 3.9)),
    ("rc_tracking_slip", "lost under it", (4,)),
    ("rc_trailer_absent", "late and absent", (0, 900)),
    ("rc_upstream_stop", "half of it", (0.5,)),
    ("rc_vision_degraded", "as a fraction", (11, 11)),
    ("rc_volume_over_plan", "at the limit", (1.2,)),
]


@pytest.mark.parametrize(("node", "name", "figures"), FIGURES)
def test_figures(node: str, name: str, figures: tuple[float, ...]) -> None:
    """What the clauses say was observed."""
    (world,) = [case.world for case in CASES if (case.node, case.name) == (node, name)]
    observed = [clause.observed for clause in judge(node, world).clauses]
    assert observed == pytest.approx(figures)
