"""Errors against packets, received and sent together; the worst interface counts."""

from datetime import datetime
from math import fsum

from triage.tool_api import (
    Context,
    Query,
    Verdict,
    compare,
    conclude,
    increase,
    no_data,
    samples,
    selector,
    span_s,
)

ERRORS = ("node_network_receive_errs_total", "node_network_transmit_errs_total")
PACKETS = ("node_network_receive_packets_total", "node_network_transmit_packets_total")


def queries(warehouse: str, timestamp: datetime, context: Context) -> list[Query]:
    window_s = float(context.params["window_s"])
    device = context.labels.get("device", "")
    return [
        samples(
            "prometheus",
            selector(metric, instance=context.entity, device=device)
            if device
            else selector(metric, instance=context.entity),
            timestamp,
            window_s,
        )
        for metric in ERRORS + PACKETS
    ]


def evaluate(warehouse: str, timestamp: datetime, context: Context) -> Verdict:
    params = context.params
    needed_s = float(params["window_s"]) * float(params["min_coverage"])
    counted: list[dict[str, float]] = []
    for query in queries(warehouse, timestamp, context):
        grown: dict[str, float] = {}
        for series in context.answer(query):
            if span_s(series) >= needed_s:
                grown[series.labels.get("device", "")] = increase(series)
        counted.append(grown)
    # An interface counts when all four of its counters do.
    devices = [name for name in sorted(counted[0]) if all(name in one for one in counted)]
    if not devices:
        return no_data(f"no network figures of {context.entity!r} for {needed_s:g} s")
    errors = {name: fsum([counted[0][name], counted[1][name]]) for name in devices}
    packets = {name: fsum([counted[2][name], counted[3][name]]) for name in devices}
    # A packet with an error is not among the packets.
    share = {
        name: 100 * errors[name] / (errors[name] + packets[name]) if errors[name] > 0 else 0.0
        for name in devices
    }
    enough = float(params["network_errors_min"])
    # A tunnel that lost one of its two packets must not hide a port that loses thousands.
    worst = max(devices, key=lambda name: (errors[name] >= enough, share[name]))
    return conclude(
        [
            compare(
                "packets in error",
                share[worst],
                ">",
                float(params["network_error_pct"]),
                "percent",
            ),
            compare("errors", errors[worst], ">=", enough, "packets"),
        ],
        f"{worst} had {errors[worst]:.0f} errors, {share[worst]:.3f} % of its packets",
        subject=worst,
    )
