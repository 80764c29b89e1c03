"""Photo-eyes: a jam that is real, and an eye that only sees badly."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from tests.unit.dock_tools.dock_series import changes, full, grown, points
from tests.unit.dock_tools.dock_world import NOW, Case, World, check, of, params_of, utc

if TYPE_CHECKING:
    from collections.abc import Sequence

    from triage.model.query import Series

SAMPLES = 60  # of ten seconds: the window
CLEAR, RUN = (600.0, 0.0), ((40.0, 1.0), (20.0, 0.0))  # blocked from 40 to 20 s ago


def flow(eye: str, still: int = 0, until: int = 0) -> Series:
    """One parcel a sample, but for `still` samples that end `until` samples before NOW."""
    count, values = 100.0, []
    for ago in reversed(range(SAMPLES)):
        count += 0 if until <= ago < until + still else 1
        values.append(count)
    return points("parcels_total", eye, values)


def stuck(
    *told: tuple[float, float],
    counter: Series | None = None,
    motor: Sequence[float] = (1,) * SAMPLES,
    entity: str = "PE-12",
    eye: str = "PE-12",
    more: Sequence[Series] = (),
    **params: float,
) -> World:
    return World(
        entity=entity,
        params=params,
        series=[
            changes("eye_blocked", eye, *told),
            flow("PE-13", 5, 2) if counter is None else counter,
            points("motor_on", "INF-1", motor),
            *more,
        ],
    )


JAM = of(
    "obs_jam_real",
    (
        "the last infeed",
        World(
            entity="INF-4",
            series=[
                changes("eye_blocked", "PE-44", CLEAR, *RUN),
                flow("PE-45", 5, 2),
                points("motor_on", "INF-4", [1] * SAMPLES),
            ],
        ),
        "true",
        "PE-44",
    ),
    (
        "two samples of the next",
        stuck(CLEAR, *RUN, counter=points("parcels_total", "PE-13", [5, 5])),
        "false",
        "PE-12",
    ),
    ("nothing passes", stuck(CLEAR, *RUN), "true", "PE-12"),
    ("parcels pass", stuck(CLEAR, *RUN, counter=flow("PE-13")), "false", "PE-12"),
    ("one parcel passes", stuck(CLEAR, *RUN, counter=flow("PE-13", 1, 2)), "false", "PE-12"),
    (
        "one sample in it",
        stuck(CLEAR, (31, 1), (23, 0), counter=flow("PE-13", 9)),
        "false",
        "PE-12",
    ),
    ("long enough", stuck(CLEAR, *RUN, jam_run_s=20), "true", "PE-12"),
    ("hardly too short", stuck(CLEAR, *RUN, jam_run_s=21), "false", "PE-12"),
    (
        "with two samples in it",
        stuck(CLEAR, (31, 1), (19, 0), counter=flow("PE-13", 9)),
        "true",
        "PE-12",
    ),
    (
        "samples at both its ends",
        stuck(CLEAR, (30, 1), (20, 0), counter=flow("PE-13", 9)),
        "true",
        "PE-12",
    ),
    ("the belt stood", stuck(CLEAR, *RUN, motor=[0] * SAMPLES), "false", "PE-12"),
    (
        "the belt stood for a moment",
        stuck(CLEAR, *RUN, motor=[1] * (SAMPLES - 4) + [0] + [1] * 3),
        "false",
        "PE-12",
    ),
    ("it stood before", stuck(CLEAR, *RUN, motor=[0] * (SAMPLES - 5) + [1] * 5), "true", "PE-12"),
    ("the motor is not known", stuck(CLEAR, *RUN, motor=()), "false", "PE-12"),
    (
        "the motor's sentinel",
        stuck(CLEAR, *RUN, motor=[1] * (SAMPLES - 4) + [9999, -1, 1, 1]),
        "true",
        "PE-12",
    ),
    ("still on", stuck(CLEAR, (20, 1), counter=flow("PE-13", 3)), "true", "PE-12"),
    (
        "since before the window",
        stuck((1200, 1), (560, 0), counter=points("parcels_total", "PE-13", [5] * 60)),
        "true",
        "PE-12",
    ),
    ("clear all the time", stuck(CLEAR), "false", "PE-12"),
    (
        "a wrap is a step",
        stuck(CLEAR, *RUN, counter=points("parcels_total", "PE-13", [*[65_535] * 57, 0, 0, 0])),
        "false",
        "PE-12",
    ),
    ("little of its state is known", stuck((359, 0), *RUN), "no_data", "PE-12"),
    ("just enough", stuck((360, 0), *RUN), "true", "PE-12"),
    ("carried for half an hour", stuck((2399, 0), *RUN), "true", "PE-12"),
    ("not for longer", stuck((2400, 0), *RUN), "no_data", "PE-12"),
    (
        "one sample of the next",
        stuck(CLEAR, *RUN, counter=points("parcels_total", "PE-13", [5])),
        "no_data",
        "PE-12",
    ),
    (
        "the last eye has no next",
        stuck(CLEAR, *RUN, entity="PE-15", eye="PE-15"),
        "no_data",
        "PE-15",
    ),
    ("its infeed", stuck(CLEAR, *RUN, entity="Infeed 1"), "true", "PE-12"),
    ("another infeed", stuck(CLEAR, *RUN, entity="INF-2"), "no_data", "INF-2"),
    ("all", stuck(CLEAR, *RUN, entity="LS-1"), "true", "PE-12"),
    (
        "the first of two",
        stuck(
            CLEAR,
            *RUN,
            entity="INF-1",
            more=[changes("eye_blocked", "PE-11", CLEAR, *RUN), flow("PE-12", 5, 2)],
        ),
        "true",
        "PE-11",
    ),
    ("spelled otherwise", stuck(CLEAR, *RUN, entity="eye 12", eye="pe12"), "true", "PE-12"),
)


def seen(
    *margins: tuple[str, float],
    entity: str = "PE-12",
    asked: str = "",
    old: float = 0,
    series: Sequence[Series] = (),
) -> World:
    eyes = [{"eye": eye, "margin_pct": margin} for eye, margin in margins]
    answer = {"as_of": utc(NOW - timedelta(seconds=old)), "eyes": eyes}
    return World(entity=entity, series=series, calls={"eye_margin": {asked or "PE-12": answer}})


def passing(blocked: float = 540, before: float = 20, behind: float = 20) -> list[Series]:
    """Seconds blocked of 600, and what the neighbours counted."""
    return [
        changes("eye_blocked", "PE-12", (600, 0), (blocked, 1)),
        grown("parcels_total", "PE-11", before),
        grown("parcels_total", "PE-13", behind),
    ]


EYE = of(
    "rc_photo_eye_dirty",
    (
        "the last eye is a neighbour",
        seen(
            ("PE-14", -1),
            entity="PE-14",
            asked="PE-14",
            series=[
                changes("eye_blocked", "PE-14", (600, 1)),
                grown("parcels_total", "PE-13", 20),
                grown("parcels_total", "PE-15", 19),
            ],
        ),
        "false",
        "PE-14",
    ),
    (
        "the fullest of a door's lane",
        seen(
            ("CH-007", 9),
            entity="DD-04",
            asked="LS-1",
            series=[full("CH-007", 9), full("CH-011", 90), full("CH-001", 90)],
        ),
        "true",
        "CH-007",
    ),
    (
        "the fullest of a zone",
        seen(
            ("CH-007", 9),
            entity="ZN-1",
            asked="LS-1",
            series=[full("CH-007", 9), full("CH-016", 90)],
        ),
        "true",
        "CH-007",
    ),
    (
        "just enough of a chute known",
        seen(
            ("CH-007", 9),
            entity="STG-02",
            asked="LS-1",
            series=[full("CH-007", 90, of=540), full("CH-008", 9)],
        ),
        "true",
        "CH-007",
    ),
    (
        "too little of it known",
        seen(("CH-007", 9), entity="STG-02", asked="LS-1", series=[full("CH-007", 90, of=539)]),
        "no_data",
        "STG-02",
    ),
    (
        "just enough of an eye known",
        seen(("PE-12", -1), series=[changes("eye_blocked", "PE-12", (360, 1)), *passing()[1:]]),
        "true",
        "PE-12",
    ),
    (
        "too little of an eye known",
        seen(("PE-12", -1), series=[changes("eye_blocked", "PE-12", (359, 1)), *passing()[1:]]),
        "no_data",
        "PE-12",
    ),
    (
        "the last eye of the last infeed",
        seen(
            ("PE-45", -1),
            entity="PE-45",
            asked="PE-45",
            series=[changes("eye_blocked", "PE-45", (600, 1)), grown("parcels_total", "PE-44", 20)],
        ),
        "true",
        "PE-45",
    ),
    (
        "a chute's own eye is clean",
        seen(("CH-007", 25), entity="ch7", asked="CH-007"),
        "false",
        "CH-007",
    ),
    ("little margin", seen(("PE-12", 24)), "true", "PE-12"),
    ("enough margin", seen(("PE-12", 25)), "false", "PE-12"),
    ("margin lost", seen(("PE-12", -1)), "no_data", "PE-12"),
    ("heard a minute ago", seen(("PE-12", 24), old=60), "true", "PE-12"),
    ("not heard since", seen(("PE-12", 24), old=61), "no_data", "PE-12"),
    ("blocked while parcels pass", seen(("PE-12", 90), series=passing()), "true", "PE-12"),
    ("not blocked enough", seen(("PE-12", 90), series=passing(539)), "false", "PE-12"),
    ("few pass before it", seen(("PE-12", 90), series=passing(before=19)), "false", "PE-12"),
    ("few pass behind it", seen(("PE-12", 90), series=passing(behind=19)), "false", "PE-12"),
    ("blocked, margin not heard", seen(("PE-12", 90), old=61, series=passing()), "true", "PE-12"),
    ("clear, margin lost", seen(("PE-12", -1), series=passing(9)), "false", "PE-12"),
    ("a neighbour unknown", seen(("PE-12", -1), series=passing()[:2]), "no_data", "PE-12"),
    (
        "the first eye has one neighbour",
        seen(
            ("PE-11", -1),
            entity="PE-11",
            asked="PE-11",
            series=[changes("eye_blocked", "PE-11", (600, 1)), grown("parcels_total", "PE-12", 20)],
        ),
        "true",
        "PE-11",
    ),
    (
        "a wrap is counted",
        seen(
            ("PE-12", 90), series=[*passing()[:2], points("parcels_total", "PE-13", [65_530, 14])]
        ),
        "true",
        "PE-12",
    ),
    (
        "the first eye of an infeed",
        seen(("PE-11", 90), ("PE-12", 9), ("PE-13", 9), entity="inf1", asked="INF-1"),
        "true",
        "PE-12",
    ),
    (
        "none of an infeed",
        seen(("PE-11", 90), ("PE-12", -1), entity="inf1", asked="INF-1"),
        "false",
        "INF-1",
    ),
    ("a chute's own eye", seen(("CH-007", 9), entity="ch7", asked="CH-007"), "true", "CH-007"),
    (
        "the fullest chute's",
        seen(
            ("CH-007", 90),
            ("CH-008", 9),
            entity="LS-1",
            asked="LS-1",
            series=[full("CH-008", 90), full("CH-007", 9)],
        ),
        "true",
        "CH-008",
    ),
    (
        "the fullest chute's is clean",
        seen(
            ("CH-007", 9),
            ("CH-008", 90),
            entity="STG-02",
            asked="LS-1",
            series=[full("CH-008", 90), full("CH-007", 9), full("CH-001", 900)],
        ),
        "false",
        "STG-02",
    ),
    (
        "the fullest chute's is lost",
        seen(
            ("CH-007", 9),
            ("CH-008", -1),
            entity="LS-1",
            asked="LS-1",
            series=[full("CH-008", 90), full("CH-007", 9)],
        ),
        "no_data",
        "LS-1",
    ),
    ("no chute known", seen(("CH-007", 9), entity="LS-1", asked="LS-1"), "no_data", "LS-1"),
)

CASES = [*JAM, *EYE]


@pytest.mark.parametrize("case", params_of(CASES))
def test_verdict(case: Case) -> None:
    check(case)
