"""Whether files may be removed, and for how long what that frees would last."""

from datetime import datetime

from triage.tool_api import (
    Clause,
    Context,
    Query,
    Verdict,
    compare,
    conclude,
    last,
    no_data,
    samples,
    selector,
    span_s,
    trend,
)


def queries(warehouse: str, timestamp: datetime, context: Context) -> list[Query]:
    params = context.params
    mount = context.labels.get("mountpoint", "")
    wanted = (
        ("node_filesystem_avail_bytes", float(params["trend_window_s"])),
        ("node_filesystem_size_bytes", float(params["scrape_stale_s"])),
        ("node_filesystem_readonly", float(params["scrape_stale_s"])),
    )
    return [
        samples(
            "prometheus",
            selector(metric, instance=context.entity, mountpoint=mount)
            if mount
            else selector(metric, instance=context.entity),
            timestamp,
            window_s,
        )
        for metric, window_s in wanted
    ]


def spoken(hours: float) -> str:
    if hours >= 1:
        return f"{hours:.1f} hours"
    return f"{60 * hours:.1f} minutes" if 60 * hours >= 1 else f"{3600 * hours:.1f} seconds"


def protected(mount: str, listed: str) -> bool:
    here = mount.rstrip("/") + "/"
    roots = [part.strip() for part in listed.split(",") if part.strip()]
    return any(here.startswith(root.rstrip("/") + "/") for root in roots)


def evaluate(warehouse: str, timestamp: datetime, context: Context) -> Verdict:
    params = context.params
    parent = context.parents.get("obs_disk_full")
    mount = parent.subject if parent is not None else context.labels.get("mountpoint", "")
    available, size, readonly = [
        [s for s in context.answer(query) if s.labels.get("mountpoint") == mount and s.times]
        for query in queries(warehouse, timestamp, context)
    ]
    if not available or not size or not readonly:
        return no_data(f"no figures of the file system {mount!r}", subject=mount)
    newest = max(available, key=lambda one: one.times[-1])
    needed_s = float(params["trend_window_s"]) * float(params["min_coverage"])
    if len(newest.times) < 3 or span_s(newest) < needed_s:
        return no_data(
            f"the free space of {mount!r} was not followed for {needed_s:g} s", subject=mount
        )
    kept = protected(mount, str(params["protected_mounts"]))
    clauses = [
        Clause(name="protected", observed=kept, op="==", threshold=False, holds=not kept),
        compare("read-only", max(last(series) for series in readonly), "==", 0),
    ]
    freed = float(params["cleanup_frees_pct"]) / 100 * max(last(series) for series in size)
    per_hour = -3600 * trend(newest).per_s
    if per_hour > 0:
        hours = freed / per_hour
        clauses.append(
            compare(
                "hours a clean-up buys", hours, ">=", float(params["cleanup_buys_hours"]), "hours"
            )
        )
    what = f"would free about {freed / 2**20:.0f} MiB of {mount}"
    lasts = f", filled again in {spoken(freed / per_hour)}" if per_hour > 0 else ""
    return conclude(clauses, f"a clean-up {what}{lasts}", subject=mount)
