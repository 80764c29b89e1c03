"""A sound SOP that tests change one thing of."""

from __future__ import annotations

from triage.errors import Finding, InvalidFiles
from triage.sop.load import parse_sop

SOUND = """\
sop: pump-house
version: 3
alarms:
  al_pressure_low: [obs_pressure_low]
  "Pressure low (old)": con_can_stop
aliases: {PressureLow: al_pressure_low}
params:
  low_bar: {value: 5.3, unit: bar, min: 1, max: 10, text: Least pressure.}
  strict: {value: true}
nodes:
  obs_pressure_low:
    kind: observation
    text: Is the pressure really low?
    sources: [metrics]
    on_true: [rc_leak, con_can_stop]
    on_false: close
    on_no_data: [check_feed]
    on_failed: [check_feed]
  rc_leak:
    kind: root_cause
    text: Is there a leak?
    sources: [metrics, tables]
    on_true: [ticket]
  con_can_stop:
    kind: constraint
    text: May the pump stop?
    on_true: [stop_pump]
    on_false: [ticket]
actions:
  close: {text: Close as handled, rank: 1, cost: low, yields: true}
  check_feed: {text: Look after the data feed, rank: 2, cost: low}
  ticket: {text: Open a ticket, rank: 3, cost: low, cancels: [check_feed]}
  stop_pump: {text: Stop the pump, rank: 9, cost: high}
"""


def changed(old: str, new: str) -> str:
    """SOUND with one passage replaced; the passage must stand there exactly once."""
    assert SOUND.count(old) == 1, f"{old!r} stands {SOUND.count(old)} times in the sample"
    return SOUND.replace(old, new)


def errors_of(text: str | bytes) -> list[Finding]:
    """The findings that a refused SOP is refused for."""
    body = text if isinstance(text, bytes) else text.encode()
    try:
        parse_sop(body, "sop.yaml")
    except InvalidFiles as refusal:
        return [finding for finding in refusal.findings if not finding.warning]
    raise AssertionError("the SOP was accepted")
