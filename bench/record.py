"""Figures with what made them: machine, versions, seeds."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from bench.world.world import OPEN_SEED, SEALED_SEED
from triage import __version__

RESULTS = Path(__file__).resolve().parent / "results"

_PACKAGES = (
    "aiohttp",
    "asyncpg",
    "langgraph",
    "mcp",
    "nats-py",
    "numpy",
    "orjson",
    "psycopg",
    "pydantic",
    "redis",
    "sqlalchemy",
    "uvloop",
)


def made_by() -> dict[str, Any]:
    """The machine as it calls itself; no host name and no path."""
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "triage": __version__,
        "packages": {name: found for name in _PACKAGES if (found := _version(name))},
        "seeds": {"open": OPEN_SEED, "sealed": SEALED_SEED},
    }


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next(
        (line.partition(":")[2].strip() for line in lines if line.startswith("model name")),
        platform.processor(),
    )


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def write(path: Path, figures: Mapping[str, Any]) -> None:
    """The figures as JSON, `made_by` beside them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        json.dumps({**figures, "made_by": made_by()}, indent=2) + "\n", encoding="utf-8"
    )
