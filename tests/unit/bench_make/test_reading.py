"""What is read of a prompt is what stands in it, and nothing of what only looks like it."""

from __future__ import annotations

import pytest

from bench.make.reading import Step, read_prompt
from tests.unit.bench_make.prompts import CASE, FAILED_CASE, MAKE, REFLECT, REPAIR, TRACES

TEXT = "Is plant air low at the dock header?"


@pytest.mark.parametrize(
    ("prompt", "step"),
    [
        ("", Step.UNKNOWN),
        ("# Question\n\nIs it?", Step.UNKNOWN),
        (MAKE.format(traces="", question=TEXT), Step.MAKE),
        (MAKE.format(traces=TRACES, question=TEXT), Step.MAKE),
        (REFLECT.format(question=TEXT, candidate="x = 1", cases=CASE), Step.REFLECT),
        (
            REPAIR.format(traces="", question=TEXT, candidate="x = 1", cases=CASE),
            Step.REPAIR,
        ),
        (f"# Host functions\n\nasync def f()\n\n# Question\n\n{TEXT}", Step.COLLECT),
        ("~~~\n# Sources\n# Question\n~~~\n", Step.UNKNOWN),
    ],
)
def test_which_step_it_is(prompt: str, step: Step) -> None:
    assert read_prompt(prompt).step is step


def test_headings_in_fences_are_data() -> None:
    prompt = read_prompt(MAKE.format(traces=TRACES, question=TEXT))
    assert prompt.question.strip() == TEXT
    assert len(prompt.traces) == 1
    assert "Is the moon full?" in prompt.traces[0].text


def test_a_longer_fence_ends_where_it_does() -> None:
    text = "# Candidate\n\n````python\nx = '''\n```\n# Failing cases\n'''\n````\n"
    prompt = read_prompt(text)
    assert prompt.candidate == "x = '''\n```\n# Failing cases\n'''"
    assert prompt.step is Step.UNKNOWN


def test_a_trace() -> None:
    trace = read_prompt(MAKE.format(traces=TRACES, question=TEXT)).traces[0]
    assert trace.units == {"air_pressure": "psi"}
    assert trace.lines["entity"] == "Cell 2"
    assert trace.expected == "true"
    series, rows, refused, empty = trace.answers
    assert (series.kind, series.size, series.step_s) == ("series", 1, 10)
    value, asset, _ = series.fields
    assert (value.name, value.types, value.low, value.high) == ("value", ("number",), -1, 98.5)
    assert (asset.low, asset.examples) == (None, '"AIR-1"')
    assert (rows.kind, rows.size, rows.doubled, rows.step_s) == ("rows", 12, 3, None)
    local, level = rows.fields
    assert local.types == ("local timestamp",)
    assert (level.types, level.nulls) == (("integer", "null"), 4)
    assert refused.failure == "query_rejected: no such column"
    assert (empty.kind, empty.size, empty.failure) == ("", 0, "")


def test_units_of_the_sites_file() -> None:
    shown = 'units: {"air": ["bar", "kPa"], "flow": ["l/s"]}'
    text = MAKE.format(traces="", question="Q").replace("air_bar=5.3 bar", f"~~~\n{shown}\n~~~")
    assert read_prompt(text).units == (("air", "bar"), ("air", "kPa"), ("flow", "l/s"))
    assert read_prompt(text.replace("~~~\n", "")).units == ()


def test_rows_between_pipes_are_read_as_well() -> None:
    text = (
        "# Traces\n## Trace 1\nquery: x\nanswer: 2 rows\n| field | types | count | nulls | low |"
        ' high | examples |\n| a.b[] | local timestamp, null | 2 | 1 | - | - | "a | b" |\n'
    )
    (field,) = read_prompt(text).traces[0].answers[0].fields
    assert (field.name, field.nulls, field.examples) == ("a.b[]", 1, '"a | b"')
    assert field.types == ("local timestamp", "null")


def test_a_failing_case() -> None:
    prompt = read_prompt(REPAIR.format(traces="", question=TEXT, candidate="x = 1", cases=CASE))
    (case,) = prompt.cases
    assert prompt.candidate == "x = 1"
    assert (case.expected, case.predicted, case.failure) == ("no_data", "false", "")
    assert case.wrong_subject
    pressure, nothing = case.clauses
    assert (pressure.name, pressure.observed, pressure.op) == ("air pressure", 6.25, "<")
    assert (pressure.threshold, pressure.unit, pressure.holds) == (5.3, "bar", False)
    assert (nothing.unit, nothing.holds) == ("", False)


def test_a_case_without_a_verdict() -> None:
    (case,) = read_prompt(REFLECT.format(question=TEXT, candidate="", cases=FAILED_CASE)).cases
    assert case.predicted == "failed"
    assert case.failure.startswith("raised: line 12: TypeError")
    assert not case.wrong_subject


@pytest.mark.parametrize("units", ["", "not json", "[1]", '{"air": "psi'])
def test_what_cannot_be_read_is_not_known(units: str) -> None:
    text = f"# Traces\n## Trace 1\nsite: FC1\nunits: {units}\n"
    assert read_prompt(text).traces[0].units == {}
