"""A blocked run of an eye during which nothing reached the next eye, though the belt ran."""

from datetime import datetime, timedelta
from math import fsum

from triage.tool_api import (
    Context,
    Held,
    Query,
    Series,
    Verdict,
    asset_id,
    compare,
    conclude,
    held,
    increase,
    no_data,
    samples,
    selector,
    valid,
)


def queries(warehouse: str, timestamp: datetime, context: Context) -> list[Query]:
    window_s = float(context.params["jam_window_s"])
    carried_s = window_s + float(context.params["eye_carry_s"])
    return [
        samples("metrics", selector("dock_eye_blocked", site=warehouse), timestamp, carried_s),
        samples("metrics", selector("dock_parcels_total", site=warehouse), timestamp, window_s),
        samples("metrics", selector("dock_motor_on", site=warehouse), timestamp, window_s),
    ]


def evaluate(warehouse: str, timestamp: datetime, context: Context) -> Verdict:
    entity = _normalised(context.entity, context)
    states, counters, motors = (
        {
            _normalised(series.labels.get("asset", ""), context): series
            for series in context.answer(query)
        }
        for query in queries(warehouse, timestamp, context)
    )
    begin = timestamp - timedelta(seconds=float(context.params["jam_window_s"]))
    carry_s = float(context.params["eye_carry_s"])
    needed_s = float(context.params["min_coverage"]) * float(context.params["jam_window_s"])
    judged, jammed, longest = 0, "", 0.0
    for eye, following, infeed in _eyes(entity, context):
        counter = counters.get(following)
        if eye not in states or counter is None or len(valid(counter.values)) < 2:
            continue
        spans = held(states[eye], begin, timestamp, carry_s=carry_s)
        if fsum(span.end - span.start for span in spans) < needed_s:
            continue
        judged += 1
        stuck_s = _stuck_s(spans, counter, motors.get(infeed), context)
        longest = max(longest, stuck_s)
        if stuck_s and not jammed:
            jammed = eye
    if not judged:
        return no_data("of no eye in scope are state and next counter known", subject=entity)
    return conclude(
        [
            compare(
                "longest run with nothing passing",
                longest,
                ">=",
                float(context.params["jam_run_s"]),
                "s",
            )
        ],
        f"{jammed} was blocked {longest:.0f} s while nothing came on"
        if jammed
        else f"in none of {judged} eyes' runs did the flow stop",
        subject=jammed or entity,
    )


def _eyes(entity: str, context: Context) -> list[tuple[str, str, str]]:
    """Eye, next eye and infeed, of the eyes in scope that have a next one."""
    layout = context.site.facts["layout"]
    return [
        (
            _normalised(f"PE-{infeed}{place}", context),
            _normalised(f"PE-{infeed}{place + 1}", context),
            _normalised(f"INF-{infeed}", context),
        )
        for infeed in range(1, layout["infeeds"] + 1)
        for place in range(1, layout["eyes_per_infeed"])
        if not entity.startswith(("PE-", "INF-"))
        or entity in (f"PE-{infeed}{place}", f"INF-{infeed}")
    ]


def _stuck_s(
    spans: tuple[Held, ...], counter: Series, motor: Series | None, context: Context
) -> float:
    """Seconds of the longest run that counts as a jam, 0 without one."""
    found = 0.0
    for span in spans:
        run_s = span.end - span.start
        if span.value != 1 or run_s < float(context.params["jam_run_s"]) or motor is None:
            continue
        passed = _within(counter, span)
        running = valid(_within(motor, span).values, sentinels=(-1, 9999))
        if (
            len(passed.values) >= 2
            and increase(
                passed,
                modulus=float(context.params["counter_modulus"]),
                max_step=float(context.params["counter_max_step"]),
            )
            == 0
            and running
            and all(value == 1 for value in running)
        ):
            found = max(found, run_s)
    return found


def _within(series: Series, span: Held) -> Series:
    """The valid samples inside the run, both ends included."""
    inside = [
        (at, value)
        for at, value in zip(series.times, series.values, strict=True)
        if span.start <= at <= span.end and valid([value], sentinels=(-1,))
    ]
    return Series(series.labels, tuple(at for at, _ in inside), tuple(value for _, value in inside))


def _normalised(text: str, context: Context) -> str:
    facts = context.site.facts
    return asset_id(text, words=facts["id_words"], width=facts["id_width"])
