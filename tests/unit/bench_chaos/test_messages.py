"""What the senders send is as varied as it should be, and names itself."""

from __future__ import annotations

from collections import Counter

import orjson

from bench.chaos.messages import (
    AGAIN,
    FILL_GROUP,
    FIRING,
    FORMATS,
    RESOLVE,
    fill_messages,
    make_messages,
)
from bench.chaos.options import options

OPTIONS = options(seconds=30, alerts=600, seed=5)
MESSAGES = make_messages(OPTIONS)


def test_the_same_options_make_the_same_messages() -> None:
    assert make_messages(OPTIONS) == MESSAGES
    assert make_messages(options(seconds=30, alerts=600, seed=6)) != MESSAGES


def test_every_alert_fires_once_and_has_an_id_of_its_own() -> None:
    fired = [alert_id for one in MESSAGES if one.kind == FIRING for alert_id in one.ids]
    assert len(fired) == len(set(fired)) == OPTIONS.alerts
    assert {alert_id for one in MESSAGES for alert_id in one.ids} == set(fired)


def test_all_formats_and_kinds_come() -> None:
    paths = Counter(one.path.removeprefix("/api/v1/alerts").lstrip("/") for one in MESSAGES)
    assert set(paths) == {*FORMATS, ""} - {"native"}
    kinds = Counter(one.kind for one in MESSAGES)
    assert set(kinds) == {FIRING, RESOLVE, AGAIN}
    assert all(count > 10 for count in kinds.values())


def test_some_resolves_are_due_before_their_firing() -> None:
    fired = {one.ids: one.due_s for one in MESSAGES if one.kind == FIRING}
    ahead = [one.due_s < fired[one.ids] for one in MESSAGES if one.kind == RESOLVE]
    assert any(ahead)
    assert not all(ahead)


def test_what_is_sent_again_is_the_same_to_the_byte() -> None:
    fired = {one.ids: one.body for one in MESSAGES if one.kind == FIRING}
    again = [one for one in MESSAGES if one.kind == AGAIN]
    assert again
    assert all(fired[one.ids] == one.body for one in again)


def test_messages_are_in_order_and_numbered() -> None:
    assert [one.number for one in MESSAGES] == list(range(len(MESSAGES)))
    assert [one.due_s for one in MESSAGES] == sorted(one.due_s for one in MESSAGES)


def test_a_burst_shares_no_alert_with_anything_else() -> None:
    first, second = (fill_messages(OPTIONS, fault, 450) for fault in (0, 1))
    ids = [alert_id for one in (*first, *second) for alert_id in one.ids]
    assert len(ids) == len(set(ids)) == 900
    assert not {alert_id for one in MESSAGES for alert_id in one.ids} & set(ids)
    assert all(len(orjson.loads(one.body)) <= FILL_GROUP for one in first)
