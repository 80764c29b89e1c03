"""The checks of chaos find what never happens, when it is put before them."""

from __future__ import annotations

from typing import Any

import pytest

from bench.chaos.checks import KEY_SUFFIX, check
from bench.chaos.receiver import Manner
from tests.unit.bench_chaos.chaos_facts import (
    AT,
    IDS,
    alert,
    decision,
    facts,
    promise,
    receipt,
)

OTHER = "f" * 32


def found(**spoilt: Any) -> dict[str, list[str]]:
    """What is wrong, by kind."""
    return {name: ids for name, ids in check(facts(**spoilt)).document().items() if ids}


def test_nothing_is_wrong_when_nothing_is() -> None:
    assert found() == {}
    assert check(facts()).ok


def test_a_promised_alert_without_a_row_is_missing() -> None:
    lost = found(
        alerts=[alert(one) for one in IDS[1:]],
        decisions=[decision(one) for one in IDS[1:]],
        receipts=[receipt(one) for one in IDS[1:]],
    )
    assert lost == {"missing": [IDS[0]]}
    assert not check(facts(alerts=[])).ok


def test_a_promised_alert_that_was_never_decided_is_missing() -> None:
    pending = found(
        alerts=[alert(IDS[0], "pending"), *(alert(one) for one in IDS[1:])],
        decisions=[decision(one) for one in IDS[1:]],
        receipts=[receipt(one) for one in IDS[1:]],
    )
    assert pending["missing"] == [IDS[0]]
    assert "pending: 1 when all should be done" in pending["unbalanced"]


def test_a_decision_that_was_removed_is_missed_twice() -> None:
    removed = found(decisions=[decision(one) for one in IDS[:-1]])
    assert removed["missing"] == [IDS[-1]]
    assert removed["unbalanced"] == ["4 alerts are decided, and there are 3 decisions"]
    assert removed["duplicates"] == [f"{IDS[-1]}{KEY_SUFFIX}: told, and no decision is stored"]


def test_a_dead_letter_of_a_good_alert_is_told_and_not_missing() -> None:
    buried = found(
        alerts=[alert(IDS[0], "dead_lettered"), *(alert(one) for one in IDS[1:])],
        decisions=[decision(one) for one in IDS[1:]],
        receipts=[receipt(one) for one in IDS[1:]],
    )
    assert buried == {"dead_lettered": [IDS[0]]}


def test_a_key_with_two_bodies_is_a_duplicate() -> None:
    twice = found(receipts=[*(receipt(one) for one in IDS), receipt(IDS[1], "another")])
    assert twice == {"duplicates": [f"{IDS[1]}{KEY_SUFFIX}: came with 2 bodies"]}


def test_a_body_that_came_unanswered_counts() -> None:
    """What a receiver read before it died is as much told as what it answered."""
    died = receipt(IDS[1], "another", manner=Manner.DIED)
    assert "duplicates" in found(receipts=[*(receipt(one) for one in IDS), died])


def test_the_same_body_twice_is_none() -> None:
    assert found(receipts=[receipt(one) for one in (*IDS, *IDS)]) == {}


def test_a_message_about_an_alert_that_nobody_sent() -> None:
    unasked = found(receipts=[*(receipt(one) for one in IDS), receipt(OTHER)])
    assert unasked == {"duplicates": [f"{OTHER}{KEY_SUFFIX}: nobody sent such an alert"]}


def test_an_alert_in_the_store_that_nobody_sent() -> None:
    unasked = found(
        alerts=[*(alert(one) for one in IDS), alert(OTHER)],
        decisions=[*(decision(one) for one in IDS), decision(OTHER)],
    )
    assert unasked["duplicates"] == [f"{OTHER}: stored, and nobody sent it"]


def test_two_decisions_of_one_alert() -> None:
    twice = found(decisions=[*(decision(one) for one in IDS), decision(IDS[2])])
    assert f"{IDS[2]}: 2 decisions are stored" in twice["duplicates"]


def test_a_message_that_says_otherwise_than_the_store() -> None:
    other = found(receipts=[*(receipt(one) for one in IDS[1:]), receipt(IDS[0], "another")])
    assert other == {
        "duplicates": [
            f"{IDS[0]}{KEY_SUFFIX}: told otherwise than the stored decision has it",
        ]
    }


def test_a_body_about_another_alert_than_its_key() -> None:
    other = receipt(IDS[1], f"sha of {IDS[0]}", key=IDS[0] + KEY_SUFFIX)
    mixed = found(
        receipts=[*(receipt(one) for one in IDS), other],
    )
    assert mixed["duplicates"] == [f"{IDS[0]}{KEY_SUFFIX}: its body is about {IDS[1]!r}"]


def test_a_decision_that_was_only_ever_refused_is_undelivered() -> None:
    refused = receipt(IDS[0], manner=Manner.REFUSED)
    assert found(receipts=[refused, *(receipt(one) for one in IDS[1:])]) == {
        "undelivered": [IDS[0]]
    }


def test_a_message_without_a_good_signature() -> None:
    forged = found(receipts=[receipt(one, signed=one != IDS[3]) for one in IDS])
    assert forged == {"forged": [f"{IDS[3]}{KEY_SUFFIX}"]}


@pytest.mark.parametrize("name", ["accepted", "decided", "dead_lettered"])
def test_a_ledger_that_disagrees_with_the_rows(name: str) -> None:
    counted = 4 if name != "dead_lettered" else 0
    assert found(ledger={name: counted + 1})["unbalanced"] == [
        f"{name}: {counted + 1} in the ledger, {counted} in the store's rows"
    ]


def test_a_ledger_that_does_not_balance() -> None:
    wrong = found(ledger={"balances": False, "unaccounted": [IDS[1]]})["unbalanced"]
    assert wrong[0].startswith("the ledger says so itself")
    assert wrong[1] == f"{IDS[1]}: unaccounted for"


@pytest.mark.parametrize("name", ["outbox_pending", "outbox_given_up"])
def test_messages_that_wait_or_were_given_up(name: str) -> None:
    assert found(ledger={name: 2}) == {"unbalanced": [f"{name}: 2 when all should be done"]}


def test_an_answer_that_names_another_alert() -> None:
    wrong = promise(IDS[0], message=7, expected=(IDS[1],))
    named = found(promises=[wrong, *(promise(one) for one in IDS[1:])])
    assert named == {
        "misnamed": [f"message 7: answered with {[IDS[0]]}, is {[IDS[1]]}"],
    }


def test_an_action_on_what_was_resolved_before_it_fired() -> None:
    resolved = promise(IDS[0], kind="resolve", at=AT)
    firing = promise(IDS[0], left_at=AT + 0.5, at=AT + 1)
    others = [promise(one) for one in IDS[1:]]
    assert found(promises=[resolved, firing, *others]) == {"acted": [f"{IDS[0]}: actions"]}
    decisions = [
        decision(IDS[0], outcome="resolved"),
        *(decision(one) for one in IDS[1:]),
    ]
    assert found(promises=[resolved, firing, *others], decisions=decisions) == {}


def test_a_resolve_that_was_answered_after_the_firing_left_proves_nothing() -> None:
    resolved = promise(IDS[0], kind="resolve", at=AT + 1)
    assert found(promises=[resolved, *(promise(one) for one in IDS)]) == {}


def test_what_the_run_itself_saw() -> None:
    seen = found(unsent=3, rejected=["message 1: 400"], limping=["replica-0"], unready=["x"])
    assert seen == {
        "unsent": ["message 1: 400", "3 messages had no 2xx long after all was well again"],
        "limping": ["replica-0"],
        "unready": ["x"],
    }
