"""The figures of the host example's clauses again, by PromQL instead of by its tools.

Windows are those of the site `demo`, shorter by the millisecond that leaves out their left edge
in Prometheus 2, where a window is closed.
"""

from __future__ import annotations

import re
from pathlib import Path

from examples.host.stage import INSTANCE

WINDOW = "[9999ms]"
TREND_WINDOW = "[14999ms]"
BUDGET_WINDOW = "[299999ms]"
HOST = f'instance="{INSTANCE}"'
SHOP = f'{HOST},job="shop"'
IDLE = 'mode=~"idle|iowait"'
BUSY = 'mode!~"idle|iowait"'
STOLEN = 'mode="steal"'
ONE_CORE = re.compile(r"core (\S+) busy")


def grown(*matchers: str, by: str = "") -> str:
    """Processor seconds in the window. Counters only grow, so their range is their growth."""
    series = f"node_cpu_seconds_total{{{','.join((HOST, *matchers))}}}{WINDOW}"
    return f"sum {by} (max_over_time({series}) - min_over_time({series}))"


def figure(node: str, clause: str, disk: Path | None) -> str:
    """The expression of a clause's observed value at `fired_at`; "" for one that no query is
    the source of. Raises KeyError for a clause that is not known here."""
    on_disk = f'{{{HOST},mountpoint="{disk}"}}'
    free = f"node_filesystem_avail_bytes{on_disk}"
    size = f"node_filesystem_size_bytes{on_disk}"
    lost_per_hour = f"(-3600 * deriv({free}{TREND_WINDOW}))"
    busy = f"100 * {grown(BUSY)} / {grown()}"
    known = {
        ("obs_disk_full", "used"): f"100 * (1 - {free} / {size})",
        ("rc_disk_filling", "hours until full"): f"{free} / {lost_per_hour}",
        ("cn_cleanup_safe", "protected"): "",  # a comparison of paths
        ("cn_cleanup_safe", "read-only"): f"node_filesystem_readonly{on_disk}",
        ("cn_cleanup_safe", "hours a clean-up buys"): f"0.1 * {size} / {lost_per_hour}",
        ("obs_service_down", "scrapes failed in a row"): (
            f"count_over_time(up{{{SHOP}}}{WINDOW}) - sum_over_time(up{{{SHOP}}}{WINDOW})"
        ),
        ("rc_host_unreachable", "targets answering"): f"sum(up{{{HOST}}})",
        ("cn_restart_safe", "seconds since start"): (
            f"time() - max_over_time(process_start_time_seconds{{{SHOP}}}{BUDGET_WINDOW})"
        ),
        ("cn_restart_safe", "away"): f"100 * (1 - avg_over_time(up{{{SHOP}}}{BUDGET_WINDOW}))",
        ("obs_cpu_busy", "processor busy"): busy,
        ("rc_cpu_steal", "processor stolen"): f"100 * {grown(STOLEN)} / {grown()}",
        ("rc_cpu_one_core", "cores"): f"count({grown(by='by (cpu)')})",
        ("rc_cpu_process", "share of busy time"): (
            f"100 * max(sum by (pid, comm)"
            f" (sum_over_time(host_top_process_cpu_ratio{{{HOST}}}{WINDOW})))"
            f" / scalar(count_over_time(node_textfile_scrape_error{{{HOST}}}{WINDOW}))"
            f" / ({busy}) * 100"
        ),
    }
    if node == "rc_cpu_one_core" and (named := ONE_CORE.fullmatch(clause)):
        core = f'cpu="{named[1]}"'
        return f"100 * (1 - {grown(IDLE, core)} / {grown(core)})"
    if (node, clause) == ("rc_cpu_one_core", "other cores busy"):
        shares = f"(1 - {grown(IDLE, by='by (cpu)')} / {grown(by='by (cpu)')})"
        return f"100 * (sum({shares}) - max({shares})) / (count({shares}) - 1)"
    return known[node, clause]
