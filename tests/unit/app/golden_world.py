"""A small procedure, and golden cases about it."""

from __future__ import annotations

from pathlib import Path

from triage.app.golden_case import Case, Unusable, check_case, parse_cases
from triage.app.golden_run import CaseResult, GoldenRunner
from triage.sop.load import parse_sop
from triage.sop.procedure import Sop
from triage.sop.sites import Sites, parse_sites

SOP = b"""\
sop: shop
version: 3
alarms: {QueueDeep: [obs_deep], QueueSlow: [obs_slow]}
aliases: {DeepQueue: QueueDeep}
nodes:
  obs_deep:
    kind: observation
    text: Is it deep?
    sources: [metrics]
    on_true: [cause_worker, tell]
    on_false: [close]
    on_no_data: [look]
  obs_slow:
    kind: observation
    text: Is it slow?
    sources: [metrics]
    on_true: [cause_worker]
    on_false: [close]
  cause_worker:
    kind: root_cause
    text: Is a worker gone?
    sources: [metrics]
    on_true: [restart_safe]
    on_false: [close]
  restart_safe:
    kind: constraint
    text: Do the others carry it?
    sources: [metrics]
    on_true: [restart]
    on_false: [page]
actions:
  close: {text: Close, rank: 1, cost: low, yields: true}
  look: {text: Look, rank: 2, cost: low}
  tell: {text: Tell, rank: 2, cost: low}
  page: {text: Page, rank: 3, cost: low}
  restart: {text: Restart, rank: 4, cost: high, cancels: [tell]}
"""

SITES = b"""\
sites:
  north:
    assets: {unit-7: {parent: line-1}}
"""

WHOLE = b"""\
about: The whole way.
alert: {alarm: QueueDeep, entity: unit-7, site: north}
verdicts:
  obs_deep: true
  cause_worker: {verdict: true, subject: line-1}
  restart_safe: {verdict: true, subject: line-1}
expect:
  outcome: actions
  degraded: false
  verdicts: {obs_deep: true, cause_worker: {verdict: true, subject: line-1}}
  root_causes: [{node: cause_worker, subject: line-1}]
  actions: [{action: restart, subject: line-1}]
  dropped_actions: [{action: tell, subject: unit-7, reason: cancelled, by: restart}]
"""


def shop() -> Sop:
    return parse_sop(SOP, "sop.yaml")


def shop_sites(sop: Sop) -> Sites:
    return parse_sites(SITES, "sites.yaml", sop)


def parsed(body: bytes | str) -> list[Case | Unusable]:
    text = body.encode() if isinstance(body, str) else body
    return parse_cases(text, Path("golden/one.yaml"), "one")


def one(body: bytes | str) -> Case:
    (case,) = parsed(body)
    assert isinstance(case, Case), case.findings
    return case


def faults(body: bytes | str) -> list[str]:
    """Every finding of every case in the file, also those that need the SOP."""
    sop = shop()
    found: list[str] = []
    for case in parsed(body):
        findings = (
            case.findings if isinstance(case, Unusable) else check_case(case, sop, shop_sites(sop))
        )
        found += [str(finding) for finding in findings]
    return found


async def walked(body: bytes | str) -> CaseResult:
    sop = shop()
    return await GoldenRunner(sop=sop, sites=shop_sites(sop)).run(one(body))
