"""What is known of attempts that came to nothing."""

from __future__ import annotations

from triage.model.alert import AlertId
from triage.worker.tries import MAX_ERROR, TriesByAlert

ONE, OTHER, THIRD = AlertId("1"), AlertId("2"), AlertId("3")


def test_every_attempt_is_accounted_for() -> None:
    tries = TriesByAlert()
    tries.fail(ONE, ValueError("first"))
    tries.fail(ONE, KeyError("last"))
    tries.excuse(ONE)
    told = tries.explain(ONE, 5)
    assert told.startswith("5 attempts ended without a decision: 2 failed here")
    assert "KeyError: 'last'" in told
    assert "first" not in told
    assert "1 decided it and could not store the decision" in told
    assert "of 2 this process did not see the end" in told


def test_nothing_is_made_up() -> None:
    tries = TriesByAlert()
    tries.fail(ONE, ValueError("x" * 10_000))
    told = tries.explain(ONE, 1)
    assert "did not see" not in told
    assert "could not store" not in told
    assert len(told) < MAX_ERROR + 200
    assert tries.explain(OTHER, 0) == "0 attempts ended without a decision"


def test_what_is_over_is_forgotten_and_the_rest_is_bounded() -> None:
    tries = TriesByAlert(limit=2)
    for alert_id in (ONE, OTHER, THIRD):
        tries.excuse(alert_id)
    assert [tries.excused(alert_id) for alert_id in (ONE, OTHER, THIRD)] == [0, 1, 1]
    tries.forget(OTHER)
    tries.forget(OTHER)
    assert tries.excused(OTHER) == 0
