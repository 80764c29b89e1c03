"""The project that the replicas serve: the load bench's procedure on a source with a record."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from bench.chaos.source import FACTORY
from bench.load.small import make_project

ROOT = Path(__file__).resolve().parent.parent.parent
PATIENT_S = 15.0  # a replica that was stopped for less finds its answers in time
SECRET_VARIABLE = "TRIAGE_BENCH_SECRET"  # noqa: S105 - the name of one


def slow_project(folder: Path, *, delay_ms: float, hook_url: str = "") -> Path:
    """Six tools in four layers, each layer waiting `delay_ms` for its source; decisions are posted
    to `hook_url`, or go nowhere. Returns the path of its triage.toml."""
    config = make_project(folder)
    text = (
        f'[sources.plant]\ntype = "custom"\nfactory = "{FACTORY}"\npython_path = "{ROOT}"\n'
        f"options = {{ delay_ms = {delay_ms} }}\ntimeout_s = {PATIENT_S}\n"
    )
    if hook_url:
        text += (
            f'\n[sinks.hook]\ntype = "webhook"\nurl = "{hook_url}"\n'
            f'secret_env = "{SECRET_VARIABLE}"\ntimeout_s = 2\n'
        )
    config.write_text(text)
    return config


def record_setting(path: Path) -> Mapping[str, str]:
    """The setting that has a replica's source keep its record in `path`."""
    return {"SOURCES__PLANT__PATH": str(path)}
