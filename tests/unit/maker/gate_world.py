"""A node whose truth is a depth against a limit, its cases, and candidates for it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from triage.maker.gates import NOTHING, ActiveVersion, Allowed, CandidateGates
from triage.maker.model import Gate
from triage.maker.scoring import score
from triage.model.case import LabelledCase, case_id, recorded
from triage.model.decision import NodeId
from triage.model.query import Series, encode_answer
from triage.model.site import Site
from triage.sop.procedure import SiteProfile
from triage.tool_api import rows, samples, selector
from triage.trial.answers import CaseAnswers, setting_of
from triage.trial.model import Answers, Candidate, Setting, Trials

NODE = NodeId("obs_depth")
BEGIN = datetime(2026, 6, 1, 5, 45, tzinfo=UTC)
HEAD = '''"""Is it too deep?"""

from datetime import datetime, timedelta

from triage.tool_api import (
    Context, Query, Truth, Verdict, compare, conclude, no_data, rows, samples, selector,
)

'''
QUERIES = """
def queries(warehouse: str, timestamp: datetime, context: Context) -> list[Query]:
    shown = context.wall_clock(timestamp).strftime("%Y-%m-%d %H:%M:%S")
    depth = selector("depth", site=warehouse, asset=context.entity)
    return [
        samples("metrics", depth, timestamp, 300),
        rows("tables", "SELECT closed_local FROM closed WHERE site = :site AND at <= :at",
             site=warehouse, at=shown),
    ]

"""
EVALUATE = """
def evaluate(warehouse: str, timestamp: datetime, context: Context) -> Verdict:
    series, closed = (context.answer(one) for one in queries(warehouse, timestamp, context))
    if not series:
        return no_data("no depth", subject=context.entity)
    depth = series[0].values[-1]
    age_s = timestamp.timestamp() - series[0].times[-1]
    open_for = [timestamp - context.localise(row["closed_local"]) for row in closed]
    return conclude(
        [
            compare("depth", depth, ">", float(context.params["limit"]), "m"),
            compare("age", age_s, "<=", 120, "s"),
            compare("closed", len([one for one in open_for if one < timedelta(hours=1)]), "==", 0),
        ],
        f"{depth:.1f} m deep",
        subject=context.entity,
    )
"""
HONEST = HEAD + QUERIES + EVALUATE
SITES = {
    name: Site(name=name, zone=zone, units={}, facts={})
    for name, zone in (("north", "America/New_York"), ("FC2", "Europe/Berlin"), ("lab", "UTC"))
}
SQL = "SELECT closed_local FROM closed WHERE site = :site AND at <= :at"


def candidate(text: str = HONEST, *, sources: tuple[str, ...] = ("metrics", "tables")) -> Candidate:
    return Candidate(NODE, text, sources)


def profile(name: str) -> SiteProfile:
    return SiteProfile(site=SITES[name], params={"limit": 10.0}, parents={}, known=True)


def settings(case: LabelledCase) -> tuple[Setting, Answers]:
    return setting_of(case, profile(case.warehouse)), CaseAnswers(case)


def case(number: int) -> LabelledCase:
    """Some hours after the one before; three sites, four assets, three verdicts by turns, so that
    neither site nor asset nor hour tells the verdict."""
    at = BEGIN + timedelta(hours=5 * number, minutes=7 * number)
    site, entity = list(SITES)[number % 3], f"CH-{number % 4}"
    expected = ("true", "false", "no_data")[(number + number // 12) % 3]
    setting = setting_of(LabelledCase("", NODE, site, at, expected, entity=entity), profile(site))
    told = () if expected == "no_data" else (_series(at, 12.5 if expected == "true" else 4.0),)
    shown = _local(at, setting.site.zone)
    closed = _local(at - timedelta(hours=2), setting.site.zone)
    queries = (
        (samples("metrics", selector("depth", site=site, asset=entity), at, 300), told),
        (rows("tables", SQL, site=site, at=shown), ({"closed_local": closed},)),
    )
    return LabelledCase(
        case_id(NODE, site, at, entity, {}),
        NODE,
        site,
        at,
        expected,
        entity=entity,
        subject=entity,
        answers=tuple(recorded(query, encode_answer(answer)) for query, answer in queries),
    )


def _series(at: datetime, value: float) -> Series:
    times = tuple(at.timestamp() - 60.0 * back for back in (2, 1, 0))
    return Series({"__name__": "depth"}, times, (value, value, value))


def _local(at: datetime, zone: str) -> str:
    return at.astimezone(ZoneInfo(zone)).strftime("%Y-%m-%d %H:%M:%S")


TRAIN = [case(number) for number in range(12)]
HELDOUT = [case(number) for number in range(12, 24)]
ALL = [*TRAIN, *HELDOUT]


async def gates_of(
    one: Candidate,
    trials: Trials,
    *,
    active: ActiveVersion | None = None,
    train: Sequence[LabelledCase] = TRAIN,
    heldout: Sequence[LabelledCase] = HELDOUT,
    budget_ms: float = 10_000.0,
    allowed: Allowed = NOTHING,
) -> list[Gate]:
    """As a making puts a candidate to them. The budget is one that no machine misses."""
    gates = CandidateGates(
        active=active,
        cases=train,
        heldout_cases=heldout,
        trials=trials,
        settings=settings,
        budget_ms=budget_ms,
        allowed=allowed,
    )
    return await gates.check(
        one,
        await score(one, train, trials, settings),
        await score(one, heldout, trials, settings),
    )


def failing(gates: Sequence[Gate]) -> set[str]:
    return {gate.name for gate in gates if not gate.passed}


def detail(gates: Sequence[Gate], name: str) -> str:
    return next(gate.detail for gate in gates if gate.name == name)
