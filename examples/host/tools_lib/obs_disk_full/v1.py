"""How full each file system is now; the fullest one counts."""

from datetime import datetime

from triage.tool_api import (
    Context,
    Query,
    Verdict,
    compare,
    conclude,
    last,
    no_data,
    samples,
    selector,
)


def queries(warehouse: str, timestamp: datetime, context: Context) -> list[Query]:
    # Only the newest sample counts, and one that is too old is of a file system that is gone.
    window_s = float(context.params["scrape_stale_s"])
    mount = context.labels.get("mountpoint", "")
    return [
        samples(
            "prometheus",
            selector(metric, instance=context.entity, mountpoint=mount)
            if mount
            else selector(metric, instance=context.entity),
            timestamp,
            window_s,
        )
        for metric in ("node_filesystem_avail_bytes", "node_filesystem_size_bytes")
    ]


def evaluate(warehouse: str, timestamp: datetime, context: Context) -> Verdict:
    available, size = [
        {
            (series.labels.get("mountpoint", ""), series.labels.get("device", "")): last(series)
            for series in context.answer(query)
        }
        for query in queries(warehouse, timestamp, context)
    ]
    used = {
        key: 100 * (1 - available[key] / whole)
        for key, whole in size.items()
        if whole > 0 and available.get(key, -1) >= 0  # NaN is not
    }
    if not used:
        return no_data(f"no file systems of {context.entity!r}")
    fullest = max(sorted(used), key=lambda key: used[key])
    mount = fullest[0]
    return conclude(
        [
            compare(
                "used", used[fullest], ">", float(context.params["filesystem_used_pct"]), "percent"
            )
        ],
        f"{mount} is {used[fullest]:.1f} % full, {available[fullest] / 2**20:.0f} MiB are free",
        subject=mount,
    )
