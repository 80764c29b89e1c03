"""An attempt that goes round in circles is noticed, one that goes on is not."""

from __future__ import annotations

from triage.fallback.repeats import Repeats
from triage.model.trace import CallRecord


def call(
    function: str = "f", arguments: str = "{}", *, sha: str = "a", error: str = ""
) -> CallRecord:
    return CallRecord(function, arguments, ok=not error, error=error, answer_sha256=sha)


def test_the_same_code_is_counted_whatever_its_blank_lines() -> None:
    repeats = Repeats()
    assert repeats.code("x = 1\ny = 2") == 1
    assert repeats.code("\nx = 1  \n\n\ny = 2\n") == 2
    assert repeats.code("x = 1\n  y = 2") == 1, "indentation is meaning"


def test_a_call_is_the_same_when_its_result_is() -> None:
    repeats = Repeats()
    assert repeats.calls([call()]) == ("f", 1)
    assert repeats.calls([call(sha="b")]) == ("f", 1)
    assert repeats.calls([call(arguments='{"a":1}')]) == ("f", 1)
    assert repeats.calls([call(function="g")]) == ("g", 1)
    assert repeats.calls([call()]) == ("f", 2)


def test_an_error_is_a_result() -> None:
    repeats = Repeats()
    assert repeats.calls([call(error="down")]) == ("f", 1)
    assert repeats.calls([call(error="rejected")]) == ("f", 1)
    assert repeats.calls([call(error="down")]) == ("f", 2)


def test_a_run_counts_a_call_once() -> None:
    repeats = Repeats()
    assert repeats.calls([call()] * 50) == ("f", 1)
    assert repeats.calls([call(function="g"), call(), call()]) == ("f", 2)


def test_a_run_without_calls_repeats_none() -> None:
    assert Repeats().calls([]) == ("", 0)
