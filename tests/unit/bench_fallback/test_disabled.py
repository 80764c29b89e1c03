"""The mix of disabled tools is the stated one, and the same again."""

from __future__ import annotations

from collections import Counter

import pytest

from bench.fallback.disabled import disabled_nodes, without
from triage.errors import ToolFailed, ToolFailure
from triage.library.catalogue import Library, Tool
from triage.model.decision import NodeId

NODES = [NodeId(f"node_{number}") for number in range(44)]


def test_three_quarters_lose_a_quarter_and_the_rest_lose_all() -> None:
    sizes = Counter(len(disabled_nodes(NODES, 1, f"alert-{n}")) for n in range(4000))
    assert set(sizes) == {11, 44}
    assert sizes[11] / 4000 == pytest.approx(0.75, abs=0.03)


def test_every_node_is_disabled_somewhere() -> None:
    some = [disabled_nodes(NODES, 1, f"alert-{n}") for n in range(400)]
    parts = [nodes for nodes in some if len(nodes) < len(NODES)]
    often = Counter(node for nodes in parts for node in nodes)
    assert set(often) == set(NODES)
    assert max(often.values()) < 2 * min(often.values())
    assert len(set(parts)) == len(parts)


def test_an_alert_has_the_same_again_in_any_order_of_nodes() -> None:
    first = disabled_nodes(NODES, 7, "alert")
    assert disabled_nodes(reversed(NODES), 7, "alert") == first
    drawn = {disabled_nodes(NODES, seed, "alert") for seed in range(20)}
    assert len(drawn) > 1


def test_the_library_has_the_others_tools() -> None:
    tools = {
        node: Tool(node=node, version=1, sha256="", queries=None, evaluate=lambda: None)
        for node in NODES[:3]
    }
    tampered = ToolFailed(ToolFailure.TAMPERED, "-")
    whole = Library(tools=tools, broken={NODES[3]: tampered})
    left = without(whole, frozenset(NODES[:2]))
    assert left.tools == {NODES[2]: tools[NODES[2]]}
    assert left.get(NODES[3]) is tampered
    for node in NODES[:2]:
        found = left.get(node)
        assert isinstance(found, ToolFailed)
        assert found.failure is ToolFailure.MISSING
    assert set(whole.tools) == set(NODES[:3])
