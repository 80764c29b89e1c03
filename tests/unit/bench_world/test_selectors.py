from __future__ import annotations

import re
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.world.selectors import BadSelector, parsed
from triage.tool_api import selector

LABELS = {"site": "FC1", "asset": "CH-007", "empty": ""}
values = st.text(alphabet='aC-07\\"\n{},=~ü.', max_size=6)
names = st.sampled_from(["site", "asset", "state", "empty"])
matchers = st.dictionaries(names, values, max_size=3)
patterns = st.dictionaries(names, values.map(re.escape), max_size=3)


@given(
    equal=matchers,
    without=matchers,
    matching=patterns,
    not_matching=patterns,
    labels=st.dictionaries(names, values, max_size=4),
)
def test_what_the_tools_write_is_read_as_it_was_meant(
    equal: dict[str, str],
    without: dict[str, str],
    matching: dict[str, str],
    not_matching: dict[str, str],
    labels: Mapping[str, str],
) -> None:
    text = selector(
        "dock_metric", without=without, matching=matching, not_matching=not_matching, **equal
    )
    expected = (
        all(labels.get(name, "") == value for name, value in equal.items())
        and all(labels.get(name, "") != value for name, value in without.items())
        and all(re.escape(labels.get(name, "")) == value for name, value in matching.items())
        and all(re.escape(labels.get(name, "")) != value for name, value in not_matching.items())
    )
    wanted = parsed(text)
    assert wanted.metric == "dock_metric"
    assert wanted.selects(labels) is expected


@pytest.mark.parametrize(
    ("text", "selects"),
    [
        ("dock_x", True),
        ("dock_x{}", True),
        (' dock_x { site = "FC1" , asset="CH-007", } ', True),
        ('dock_x{asset=~"CH-.*"}', True),
        ('dock_x{asset=~"CH"}', False),
        ('dock_x{asset=~"7|CH-007"}', True),
        ('dock_x{asset=~"H-007"}', False),
        ('dock_x{asset!~"CH-00[1-6]"}', True),
        ('dock_x{asset=~"CH-\\\\d+"}', True),
        ('dock_x{state=""}', True),
        ('dock_x{state!=""}', False),
        ('dock_x{state=~"|running"}', True),
        ('dock_x{state=~".+"}', False),
        ('dock_x{state!~".+"}', True),
        ('dock_x{site="FC1",site="FC2"}', False),
    ],
)
def test_prometheus_semantics(text: str, selects: bool) -> None:
    assert parsed(text).selects(LABELS) is selects


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "7x",
        "dock_x{",
        'dock_x{site="FC1"',
        'dock_x{site="FC1"} or dock_y',
        'dock_x{site="FC1"}[5m]',
        'dock_x{site=="FC1"}',
        "dock_x{site=FC1}",
        'dock_x{site="FC1" asset="a"}',
        "dock_x{,}",
        'dock_x{site="a\\q"}',
        'dock_x{site=~"("}',
        'dock_x{si-te="a"}',
        "dock_x y",
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(BadSelector):
        parsed(text)
