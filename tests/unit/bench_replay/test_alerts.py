"""Which alarms become the historical alerts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bench.ranks import nearest_rank
from bench.replay.alerts import SHARES, HistoricalAlert, _quotas
from triage.model.alert import occurrence_id


@given(
    st.fixed_dictionaries({alarm: st.integers(0, 400) for alarm in SHARES}),
    st.integers(1, 3000),
)
def test_quotas_come_to_the_count_and_never_beyond_what_there_is(
    there: dict[str, int], count: int
) -> None:
    quotas = _quotas(there, count)
    assert sum(quotas.values()) == min(count, sum(there.values()))
    assert all(quotas[alarm] <= there[alarm] for alarm in there)


def test_with_enough_of_each_the_shares_are_kept() -> None:
    quotas = _quotas(dict.fromkeys(SHARES, 10_000), 1000)
    assert all(abs(quotas[alarm] - 10 * share) <= 10 for alarm, share in SHARES.items())


def test_shares_are_percent() -> None:
    assert sum(SHARES.values()) == 100


def test_an_alert_is_spelled_as_its_site_spells_and_told_apart_by_its_asset() -> None:
    one = HistoricalAlert(
        alarm="al_chute_full",
        site=2,
        entity="CH-007",
        at=1_795_800_000,
        severity="warning",
        kinds=frozenset(),
    )
    assert (one.arrival.site, one.arrival.entity) == ("FC3", "ch7")
    assert one.alert_id == occurrence_id(
        "native", "", "FC3/al_chute_full/CH-007", 1_795_800_000 * 10**9
    )


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=200), st.floats(0.001, 1))
def test_a_percentile_was_measured_and_enough_do_not_exceed_it(
    values: list[float], q: float
) -> None:
    found = nearest_rank(values, q)
    assert found in values
    assert len([value for value in values if value <= found]) >= q * len(values) - 1e-9
