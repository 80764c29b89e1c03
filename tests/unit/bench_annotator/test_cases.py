from __future__ import annotations

import json
from collections import Counter
from functools import cache
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

from bench.annotator.candidates import (
    AROUND_S,
    SPLITS,
    Place,
    Places,
    entities,
    instants,
    spans,
)
from bench.annotator.case_file import read_cases, write_cases
from bench.annotator.cases import FEWEST, Case, CaseMaker, mix, shortfalls
from bench.annotator.ids import Layout
from bench.annotator.judge import RULES, Judge
from bench.world.layout import EPOCH, LAYOUT, WIDTH, WORDS
from bench.world.world import World
from tests.unit.bench_annotator.dock import settings
from tests.unit.bench_world.floor_minutes import floor_minutes

LAY = Layout(counts=LAYOUT, words=WORDS, widths=WIDTH)
EFFORT = 0.08
NODE = "con_yard_trailer"  # cheap, and it turns with every shift and trailer


@cache
def world() -> World:
    return World(floor_minutes(days=6), seed=5)


@cache
def maker() -> CaseMaker:
    return CaseMaker(world(), settings(), seed=1, effort=EFFORT)


@cache
def cases() -> tuple[Case, ...]:
    return tuple(maker().of(NODE))


def test_parts_are_apart_in_time() -> None:
    both = spans(world())
    assert both.train[1] < both.heldout[0]
    for case in cases():
        start, end = both.of(case.split)
        assert start < case.t <= end
    assert {case.split for case in cases()} == set(SPLITS)


def test_no_episode_is_in_both_parts() -> None:
    by_split = {
        split: {case.episode for case in cases() if case.split == split} for split in SPLITS
    }
    assert not by_split["train"] & by_split["heldout"]


def test_an_instant_belongs_to_the_episode_that_is_on() -> None:
    places = Places(world(), "train")
    first = world().minutes.episodes
    one = next(e for e in first if e.start > places.start and e.end < places.end)
    place = Place("any time", one.site, "", places.start, places.end, 0)
    assert places.episode_at(place, one.start) is not None
    assert (places.episode_at(place, one.start) or 0) > 0
    assert places.episode_at(place, places.start) is None
    assert places.episode_at(place, places.end + 1) is None
    own = Place(one.fault, one.site, one.asset, one.start, one.end, one.episode)
    assert places.episode_at(own, one.end + AROUND_S) == one.episode


def test_each_case_is_answered_as_it_says() -> None:
    judge = Judge(world(), settings())
    for case in cases():
        judged = judge.judge(case.site, case.t, case.entity, case.node)
        assert (judged.value, judged.subject) == (case.expected, case.subject)


def test_verdicts_are_balanced_and_turn_within_a_second() -> None:
    for split in SPLITS:
        own = [case for case in cases() if case.split == split]
        assert len(own) >= FEWEST
        counts = Counter(case.expected for case in own)
        assert min(counts["true"], counts["false"]) >= 30, counts
        turns = sorted((case for case in own if case.near == "turn"), key=lambda case: case.t)
        pairs = [
            (one, other)
            for one, other in pairwise(turns)
            if other.t - one.t == 1 and one.expected != other.expected
        ]
        assert len(pairs) >= 2


def test_the_same_seed_gives_the_same_cases_and_another_gives_others() -> None:
    again = CaseMaker(World(floor_minutes(days=6), seed=5), settings(), seed=1, effort=EFFORT)
    assert tuple(again.of(NODE)) == cases()
    assert tuple(CaseMaker(world(), settings(), seed=2, effort=EFFORT).of(NODE)) != cases()


def test_cases_on_disk(tmp_path: Path) -> None:
    file = tmp_path / "cases.jsonl"
    write_cases(file, cases())
    assert tuple(read_cases(file)) == cases()
    assert list(json.loads(file.read_text().splitlines()[0])) == list(Case.__dataclass_fields__)
    file.write_text('{"node": "rc_cup_worn"}\n')
    with pytest.raises(ValueError, match="line 1: not a case"):
        read_cases(file)


def test_what_is_missing_is_told() -> None:
    few = shortfalls([case for case in cases() if case.expected != "true"], maker().tries)
    own = [one for one in few if one.node == NODE]
    assert {(one.split, one.verdict) for one in own} >= {(split, "true") for split in SPLITS}
    assert all(one.found == 0 for one in own if one.verdict == "true")
    told = {(node, split): counts for node, split, counts, _ in mix(cases())}
    assert set(told) == {(node, split) for node in RULES for split in SPLITS}
    assert sum(sum(counts.values()) for counts in told.values()) == len(cases())


def test_instants_lie_about_their_place() -> None:
    place = Place("jam", 0, "PE-22", EPOCH, EPOCH + 600, 1)
    rng = Random(1)
    times = [instants(place, rng) - EPOCH for _ in range(500)]
    assert -AROUND_S < min(times) < 0
    assert 600 < max(times) < 600 + AROUND_S
    assert sum(0 <= time <= 600 for time in times) > 250


@pytest.mark.parametrize(
    ("asset", "kinds", "found"),
    [
        ("RC-02", ["CH", "RC"], [["RC-02"]]),
        ("DRV-12", ["RC", "LS"], [["RC-02"]]),
        ("DRV-0", ["RC", "LS"], [["LS-1"]]),
        ("INF-2", ["PE", "LS"], [["PE-21", "PE-22", "PE-23", "PE-24", "PE-25"]]),
        ("DD-03", ["STG"], [["STG-02"]]),
        ("ZN-1", ["STG"], [["STG-01", "STG-02", "STG-03"]]),
        ("CH-060", ["LS"], [["LS-1"]]),
        ("", ["ST"], [["ST-1", "ST-2"]]),
    ],
)
def test_what_a_fault_shows_at(asset: str, kinds: list[str], found: list[list[str]]) -> None:
    assert entities(LAY, asset, kinds) == found
