"""A multiplied project as the daemon and the engine can run it: its sources live in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from bench.growth.multiply import Multiplied
from triage.adapters.memory import MemorySource
from triage.model.alert import Alert, AlertId, Severity
from triage.model.query import Aggregate, Answer, Query, Reading, Rows, Samples, Series
from triage.sop.procedure import Sop

FIRED_AT = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
STEP_S = 15
MOST_SAMPLES = 60


def write_config(project: Multiplied, sop: Sop) -> Path:
    """triage.toml for the project, with a source in memory for each that the SOP names."""
    lines = ["[sop]", 'file = "sop.yaml"', 'library = "tools_lib"']
    if (project.folder / "sites.yaml").exists():
        lines.append('sites = "sites.yaml"')
    lines += ["[store]", 'url = "sqlite:///data/triage.db"', "[log]", 'format = "json"']
    for name in source_names(sop):
        lines += [f"[sources.{name}]", 'type = "custom"', f'factory = "{__name__}:source"']
    config = project.folder / "triage.toml"
    config.write_text("\n".join([*lines, ""]))
    return config


def source_names(sop: Sop) -> Sequence[str]:
    return sorted({source for node in sop.nodes.values() for source in node.sources})


def source(
    name: str, *, path: Path | None, options: Mapping[str, object], address: str
) -> MemorySource:
    """What `factory` in the configuration names."""
    return MemorySource(name, answer, keep_asked=False)


def answer(query: Query) -> Answer:
    """The same to equal queries, and something to look at where a series is asked for."""
    match query:
        case Samples():
            start, end = query.start.timestamp(), query.end.timestamp()
            count = min(MOST_SAMPLES, max(1, int((end - start) / STEP_S)))
            times = tuple(end - STEP_S * back for back in range(count - 1, -1, -1))
            return (
                Series({"__name__": "bench"}, times, tuple(50.0 + i % 7 for i in range(count))),
            )
        case Aggregate():
            return (Reading({}, 50.0),)
        case Rows():
            return ()
        case _:
            return {}


def alerts(sop: Sop, alarms: Sequence[str]) -> list[Alert]:
    """One of each of these alarms."""
    return [
        Alert(
            alert_id=AlertId(f"{index:032x}"),
            integration="bench",
            tenant="",
            fingerprint=alarm,
            alarm=alarm,
            site="bench",
            entity="bench-1",
            severity=Severity.WARNING,
            fired_at=FIRED_AT,
            accepted_at=FIRED_AT,
            labels={},
            annotations={},
        )
        for index, alarm in enumerate(alarms)
        if sop.entry(alarm) is not None
    ]
