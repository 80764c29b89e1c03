"""What a run of chaos must have shown."""

from __future__ import annotations

import math
from typing import Any

from bench.chaos.options import Options
from bench.chaos.plan import make_plan


def proven(figures: dict[str, Any], wanted: Options) -> None:
    """All promised alerts were decided once, and all faults of the plan were made."""
    assert figures["ok"], figures["findings"]
    assert figures["missing"] == figures["duplicates"] == figures["pending"] == 0
    assert figures["dead_lettered"] == 0
    assert figures["accepted"] == figures["decided"] == figures["promised"] > wanted.alerts
    assert figures["plan"] == [
        {**fault.document(), **did}
        for fault, did in zip(make_plan(wanted), figures["plan"], strict=True)
    ]
    assert all("did_at_s" in did for did in figures["plan"])
    assert {did["kind"] for did in figures["plan"]} == {fault.kind for fault in make_plan(wanted)}
    assert figures["kills"] > 0
    assert figures["drops"] > 0
    assert math.isfinite(figures["max_recovery_s"])
