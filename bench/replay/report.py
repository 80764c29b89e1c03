"""What a replay came to, for people: tables, and pictures of latency and of what was missed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.table import Table

from bench.replay.history import History
from bench.replay.score import EXPLAIN, Difference
from triage.telemetry.logs import configure

SHOWN_DIFFERENCES = 10


def report(history: History, figures: Mapping[str, Any]) -> RenderableType:
    """Tables for a terminal."""
    return Group(*_parts(history, figures))


def _parts(history: History, figures: Mapping[str, Any]) -> Iterator[RenderableType]:
    yield _summary(figures)
    if figures["llm_turns"]:
        yield _modelled(figures)
    yield _root_causes(figures)
    yield _whys(figures)
    if history.differences:
        yield _differences(history.differences[:SHOWN_DIFFERENCES])
        left = len(history.differences) - SHOWN_DIFFERENCES
        if left > 0:
            yield f"and {left} more"


def _summary(figures: Mapping[str, Any]) -> Table:
    table = Table(title="replay", show_header=False)
    low, high = figures["root_cause_precision_interval"]
    recall_low, recall_high = figures["root_cause_recall_interval"]
    rows = {
        "alerts": f"{figures['alerts']} in {figures['seconds']:.1f} s",
        "decided otherwise than the annotator": f"{figures['errors']}"
        f" (observations {figures['observation_errors']}, root causes"
        f" {figures['root_cause_errors']}, actions {figures['action_errors']})",
        "root causes named that were real": f"{figures['root_cause_precision']:.3f}"
        f" (95 % {low:.3f}-{high:.3f})",
        "real faults named": f"{figures['root_cause_recall']:.3f}"
        f" (95 % {recall_low:.3f}-{recall_high:.3f})",
        "mode": figures["mode"] + (f", {figures['model']}" if figures["model"] else ""),
        "latency p50, p99, measured": f"{figures['p50_ms']:.1f} ms, {figures['p99_ms']:.1f} ms",
        "nodes, queries an alert": f"{figures['nodes_per_alert_mean']:.1f},"
        f" {figures['queries_per_alert_mean']:.1f}",
        "round trips p50": f"{figures['round_trips_p50']:g}",
        "nodes answered by an agent": str(figures["llm_calls"]),
        "turns, tokens of the model": f"{figures['llm_turns']}, {figures['tokens']}",
        "outcomes": ", ".join(f"{k} {v}" for k, v in sorted(figures["outcomes"].items())),
        "unusual": ", ".join(f"{k} {v}" for k, v in sorted(figures["kinds"].items()))
        + f", near a threshold {figures['boundary']}, some no_data {figures['no_data']}",
        "decisions_sha256": figures["decisions_sha256"],
    }
    for name, value in rows.items():
        table.add_row(name, value)
    return table


def _modelled(figures: Mapping[str, Any]) -> Table:
    """Apart from the measured latency, so that nobody takes the one for the other."""
    table = Table(
        title="latency as modelled: turns and tokens as measured, on a model of"
        f" {figures['modelled_prompt_tokens_per_s']:g} prompt tokens/s,"
        f" {figures['modelled_generated_tokens_per_s']:g} generated tokens/s and"
        f" {figures['modelled_turn_s']:g} s a turn",
        show_header=False,
    )
    for name, what in (
        ("modelled", "a layer's nodes all at once"),
        ("modelled_one_slot", "one request at a time"),
    ):
        p50, p99 = figures[f"{name}_p50_ms"] / 1000, figures[f"{name}_p99_ms"] / 1000
        table.add_row(f"p50, p99, {what}", f"{p50:.1f} s, {p99:.1f} s")
    return table


def _root_causes(figures: Mapping[str, Any]) -> Table:
    table = Table(title="against the faults that truly were")
    for heading in ("root cause", "precision", "recall"):
        table.add_column(heading)
    for node, rates in figures["by_root_cause"].items():
        table.add_row(node, rates["precision"], rates["recall"])
    return table


def _whys(figures: Mapping[str, Any]) -> Table:
    table = Table(title="why faults were missed, and named without being there")
    for heading in ("", "root cause", "why", "alerts", "which means"):
        table.add_column(heading)
    for title, key in (("missed", "misses"), ("named", "false_alarms")):
        for name, count in figures[key].items():
            node, why = name.split(": ", 1)
            table.add_row(title, node, why, str(count), EXPLAIN[why.partition(":")[0]])
    return table


def _differences(differences: Sequence[Difference]) -> Table:
    table = Table(title="decided otherwise than the annotator")
    for heading in ("alert", "what", "ours", "the annotator's"):
        table.add_column(heading)
    for one in differences:
        name = f"{one.alert.alarm} {one.alert.site} {one.alert.entity} {one.alert.at}"
        for node, (ours, theirs) in one.verdicts.items():
            table.add_row(name, node, ours, theirs)
        for what, pair in (
            ("outcome", one.outcome),
            ("root causes", one.root_causes),
            ("actions", one.actions),
        ):
            if pair is not None:
                table.add_row(name, what, str(pair[0]), str(pair[1]))
    return table


# --- pictures ---------------------------------------------------------------------------------


def plot(history: History, figures: Mapping[str, Any], folder: Path, name: str) -> list[Path]:
    """Writes `name`-latency.png and `name`-right.png into `folder`."""
    # Half a second, and only those who want pictures have to wait for it.
    import matplotlib as mpl

    mpl.use("Agg")
    folder.mkdir(parents=True, exist_ok=True)
    return [
        _latency(history, folder / f"{name}-latency.png"),
        _right(history, figures, folder / f"{name}-right.png"),
    ]


def _latency(history: History, path: Path) -> Path:
    from matplotlib import pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4.5), layout="constrained")
    for stage, values in _stages(history).items():
        ordered = sorted(values)
        left.step(ordered, [(i + 1) / len(ordered) for i in range(len(ordered))], label=stage)
    left.set(
        title="latency by stage", xlabel="ms", ylabel="share of alerts", xscale="log", ylim=(0, 1)
    )
    left.grid(alpha=0.3)
    left.legend()
    by_alarm: dict[str, list[float]] = {}
    for one in history.decided:
        by_alarm.setdefault(one.alert.alarm, []).append(1000 * one.latency_s)
    alarms = sorted(by_alarm, key=lambda alarm: sorted(by_alarm[alarm])[len(by_alarm[alarm]) // 2])
    right.boxplot(
        [by_alarm[alarm] for alarm in alarms],
        orientation="horizontal",
        tick_labels=[f"{alarm} ({len(by_alarm[alarm])})" for alarm in alarms],
        whis=(1, 99),
        showfliers=False,
    )
    right.set(title="send to commit, by alarm (whiskers p1, p99)", xlabel="ms")
    right.grid(alpha=0.3, axis="x")
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return path


def _stages(history: History) -> dict[str, list[float]]:
    stages: dict[str, list[float]] = {
        "send to commit": [1000 * one.latency_s for one in history.decided]
    }
    for stage in ("sources", "evaluate", "queue_wait"):
        stages[stage] = [
            max(one.decision.stages_ms.get(stage, 0.0), 0.001) for one in history.decided
        ]
    return stages


def _right(history: History, figures: Mapping[str, Any], path: Path) -> Path:
    from matplotlib import pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 6), layout="constrained")
    rates = history.latent.by_fault
    nodes = sorted(rates, reverse=True)
    for index, (label, shift) in enumerate((("precision", 0.2), ("recall", -0.2))):
        known = [(place, rates[node][index]) for place, node in enumerate(nodes)]
        shown = [(place + shift, rate) for place, rate in known if rate.of]
        left.barh(
            [place for place, _ in shown],
            [rate.value for _, rate in shown],
            0.4,
            label=label,
            xerr=[
                [max(0.0, rate.value - rate.interval[0]) for _, rate in shown],
                [max(0.0, rate.interval[1] - rate.value) for _, rate in shown],
            ],
            error_kw={"elinewidth": 0.8, "alpha": 0.6},
        )
    left.set_yticks(range(len(nodes)), nodes)
    left.set(xlim=(0, 1), xlabel="with 95 % intervals")
    left.set_title("root causes against the faults that truly were", pad=28)
    left.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, frameon=False)
    wrong: Counter[str] = Counter()
    for one in history.differences:
        wrong.update(one.verdicts.keys())
        wrong[one.alert.alarm] += 1
    names = sorted({*(node for d in history.decided for node in _nodes(d)), *figures["alarms"]})
    right.barh(range(len(names)), [wrong[name] for name in names])
    right.set_yticks(range(len(names)), names, fontsize=6)
    right.set(
        title=f"otherwise than the annotator: {figures['errors']} of {figures['alerts']} alerts",
        xlabel="alerts, by alarm and by node",
        xlim=(0, max(1, *wrong.values()) if wrong else 1),
    )
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return path


def _nodes(decided: Any) -> list[str]:
    return [result.node for result in decided.decision.nodes]


def quiet() -> None:
    """A line of log a decision is for a daemon; here only what went wrong is of interest."""
    configure(format="console", level="warning")


def print_report(history: History, figures: Mapping[str, Any]) -> None:
    Console().print(report(history, figures))
