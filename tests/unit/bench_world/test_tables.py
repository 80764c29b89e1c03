"""The canonical tables: complete, in order, silent when they must be, and telling the faults."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from bench.world.catalogue import TABLES
from bench.world.floor import Floor
from bench.world.minutes import Minutes
from bench.world.tables import CanonicalTables
from bench.world.tables_people import AREAS, duties
from bench.world.warehouse_rows import canonical_name
from tests.unit.bench_world.floor_minutes import (
    SEED,
    canonical_columns,
    floor_minutes,
    silent_times,
    within,
)

SITES = 2
PLANS = ("forecast", "break_plan", "departure", "roster")


@pytest.fixture(scope="module")
def minutes() -> Minutes:
    return floor_minutes(sites=SITES)


@pytest.fixture(scope="module")
def tables(minutes: Minutes) -> CanonicalTables:
    return CanonicalTables(minutes, SEED)


@pytest.mark.parametrize("name", TABLES)
def test_columns_are_canonical(tables: CanonicalTables, name: str) -> None:
    for site in range(SITES):
        columns = tables.table(site, name)
        assert list(columns) == list(canonical_columns(name))
        lengths = {len(values) for values in columns.values()}
        assert len(lengths) == 1
        assert lengths.pop() > 0
        for column, kind in canonical_columns(name).items():
            assert columns[column].dtype.kind == ("U" if kind == "text" else "i"), column
            assert kind == "text" or columns[column].dtype == np.int64
        at = columns[canonical_name(TABLES[name].at)]
        assert (np.diff(at) >= 0).all()
        key = [
            columns[canonical_name(one)].tolist() for one in TABLES[name].key if "fold" not in one
        ]
        assert len(set(zip(*key, strict=True))) == len(at)


@pytest.mark.parametrize("name", TABLES)
def test_tables_are_the_same_twice(minutes: Minutes, tables: CanonicalTables, name: str) -> None:
    again = CanonicalTables(minutes, SEED).table(1, name)
    for column, values in tables.table(1, name).items():
        assert (values == again[column]).all()
    assert tables.table(1, name) is tables.table(1, name)


@pytest.mark.parametrize("name", [name for name in TABLES if name not in PLANS])
def test_a_silent_warehouse_writes_nothing(
    minutes: Minutes, tables: CanonicalTables, name: str
) -> None:
    at = tables.table(0, name)[canonical_name(TABLES[name].at)]
    start, end = silent_times(minutes)
    assert within(at, start, end) == 0
    assert within(at, minutes.start - 1, start) > 0 or name == "spare_stock"
    assert within(at, end, minutes.start + 60 * minutes.minutes) > 0


def test_plans_know_no_silence(minutes: Minutes, tables: CanonicalTables) -> None:
    assert within(tables.table(0, "forecast")["slot"], *silent_times(minutes)) == 3


def test_other_seeds_are_other_people(minutes: Minutes) -> None:
    one, other = (CanonicalTables(minutes, seed).table(0, "labor_slot") for seed in (1, 2))
    assert (one["planned"] != other["planned"]).any()


def test_counts_add_up(minutes: Minutes, tables: CanonicalTables) -> None:
    forecast = tables.table(0, "forecast")
    assert forecast["arrivals"][7] == minutes.forecast_arrivals[0, 105:120].sum()
    zone = tables.table(0, "container_zone")
    row = np.flatnonzero((zone["at"] == minutes.start + 3600) & (zone["zone"] == "ZN-2"))[0]
    assert zone["used_15min"][row] == minutes.containers_used[0, 45:60, 1].sum()
    assert zone["empties"][row] == minutes.empties[0, 59, 1]
    flow = tables.table(1, "flow_minute")
    assert flow["at"][10] == minutes.start + 660
    assert flow["reads"][10] == minutes.reads[1, 10]
    mix = tables.table(0, "item_mix")
    total = mix["parcels"].sum() / minutes.arrivals[0].sum()
    assert total == pytest.approx(1, abs=0.03)


def test_every_no_read_has_its_row(minutes: Minutes, tables: CanonicalTables) -> None:
    rows = tables.table(0, "no_read")
    written = ~minutes.warehouse_silent[0]
    assert len(rows["at"]) == minutes.no_reads[0][written].sum()
    of_minute = (rows["at"] - minutes.start - 1) // 60
    second = np.bincount(of_minute[rows["tunnel"] == "ST-2"], minlength=minutes.minutes)
    assert (second[written] == minutes.no_reads[0, written, 1]).all()
    assert np.mean(rows["printer"] != "") == pytest.approx(0.7, abs=0.03)


def test_bad_labels_come_from_one_printer(minutes: Minutes, tables: CanonicalTables) -> None:
    rows = tables.table(0, "no_read")
    start = minutes.start + 60 * 1500
    bad = (rows["at"] > start) & (rows["at"] <= start + 12_000) & (rows["printer"] != "")
    (printer, count), *_ = Counter(rows["printer"][bad].tolist()).most_common(1)
    assert printer == "PR-04"
    assert count / bad.sum() > 0.6
    usual = Counter(rows["printer"][rows["at"] < start].tolist())
    assert usual["PR-04"] / usual.total() < 0.3


def test_hard_items_and_short_labor_show(minutes: Minutes, tables: CanonicalTables) -> None:
    mix = tables.table(0, "item_mix")

    def hard(first: int, last: int) -> float:
        rows = (mix["at"] > minutes.start + 60 * first) & (mix["at"] <= minutes.start + 60 * last)
        known = rows & (mix["class"] != "unknown")
        odd = rows & np.isin(mix["class"], ("polybag", "irregular"))
        return float(mix["parcels"][odd].sum() / mix["parcels"][known].sum())

    assert hard(2030, 2090) > hard(1900, 1990) + 0.1
    labor = tables.table(0, "labor_slot")
    short = labor["actual"] < 0.75 * labor["planned"]
    short &= (labor["actual"] >= 0) & (labor["planned"] >= 4)
    begin, end = minutes.start + 60 * 1080, minutes.start + 60 * 1260
    inside = (labor["slot"] >= begin) & (labor["slot"] < end)
    assert short[inside].any()
    assert not short[~inside].any()


def test_loading_counts_from_the_pull_before(minutes: Minutes, tables: CanonicalTables) -> None:
    departure, loading = tables.table(0, "departure"), tables.table(0, "loading")
    end = minutes.start + 60 * minutes.minutes
    of_lane = np.flatnonzero((departure["lane"] == "STG-05") & (departure["cpt"] < end))
    before, row = of_lane[1:3]
    rows = loading["departure_id"] == departure["departure_id"][row]
    at, loaded = loading["at"][rows], loading["loaded"][rows]
    assert at[-1] == departure["cpt"][row]
    assert at[0] > departure["cpt"][row] - 10_800
    first = (departure["cpt"][before] - minutes.start) // 60
    counted = minutes.loaded[0, first:, 4].cumsum()
    for instant, value in zip(at.tolist(), loaded.tolist(), strict=True):
        minute = (instant - minutes.start) // 60 - first
        expected = counted[minute - 1] if minute > 0 else 0
        assert value == min(expected, departure["planned"][row])
    assert loaded[-1] == departure["planned"][row]


def test_staging_counts_closed_positions(tables: CanonicalTables) -> None:
    rows = tables.table(0, "staging_lane")
    assert (rows["closed"] <= rows["occupied"]).all()
    assert (rows["occupied"] <= rows["positions"]).all()
    assert rows["closed"].min() == 0
    assert rows["closed"].max() > 3
    for lane in np.unique(rows["lane"]).tolist():
        assert len(np.unique(rows["positions"][rows["lane"] == lane])) == 1


def test_labor_has_gaps_surplus_and_whole_shifts(tables: CanonicalTables) -> None:
    rows = tables.table(0, "labor_slot")
    assert set(rows["area"].tolist()) == set(AREAS)
    assert ((rows["slot"] >= rows["shift_start"]) & (rows["slot"] < rows["shift_end"])).all()
    assert 0 < np.mean(rows["actual"] == -1) < 0.15
    donors = np.isin(rows["area"], ("pick", "pack", "receive"))
    movable = np.minimum(rows["actual"] - 1.05 * rows["planned"], rows["trained_outbound"]) >= 2
    assert 0.02 < np.mean(movable[donors]) < 0.5


def test_tickets_are_history(minutes: Minutes, tables: CanonicalTables) -> None:
    rows = tables.table(0, "ticket")
    closed = rows["closed"] >= 0
    assert (rows["closed"][closed] > rows["opened"][closed]).all()
    assert closed.any()
    assert not closed.all()
    people = {duty.person for duty in duties(Floor(minutes, SEED, 0)) if duty.role == "technician"}
    assert set(rows["assignee"].tolist()) - {""} <= people
    assert len(set(rows["status"].tolist())) > 3
