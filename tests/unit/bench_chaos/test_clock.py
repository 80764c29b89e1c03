"""The plan's time goes on while somebody answers, and a little longer."""

from __future__ import annotations

from bench.chaos.clock import PATIENCE_S, PlanClock


class Given:
    """A clock and an answer, set by the test."""

    def __init__(self) -> None:
        self.at_s = 100.0
        self.answers = True
        self.clock = PlanClock(lambda: self.answers, lambda: self.at_s)

    def after(self, seconds: float) -> float:
        self.at_s += seconds
        return self.clock.now


def test_it_goes_as_time_does() -> None:
    given = Given()
    assert given.after(0) == 0
    assert given.after(3) == 3
    assert given.after(60) == 63
    assert given.clock.stood_still_s == 0


def test_it_stands_still_when_nobody_answers_for_long() -> None:
    given = Given()
    given.answers = False
    assert given.after(PATIENCE_S) == PATIENCE_S
    assert given.after(5) == PATIENCE_S
    given.answers = True
    assert given.after(1) == PATIENCE_S + 1
    assert given.clock.stood_still_s == 5


def test_short_silences_do_not_add_up() -> None:
    given = Given()
    for _ in range(3):
        given.answers = False
        given.after(PATIENCE_S * 0.9)
        given.answers = True
        given.after(0.0)
    assert given.clock.stood_still_s == 0


async def test_waiting_ends_when_the_time_has_come() -> None:
    moments = iter(float(n) for n in range(100))
    clock = PlanClock(lambda: True, lambda: next(moments))
    await clock.until(3.0)
    assert clock.now >= 3.0
