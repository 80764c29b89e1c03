"""What a candidate must pass before it may be registered, each thing under a name of its own.

A gate that could not be checked has not passed, and says so. `interpreters` is not checked here:
code that nobody approved runs in the sandbox only, so the run in both interpreters belongs to the
approval (`agreement`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from triage.errors import FallbackFailure, ToolFailure
from triage.library.policy import check_source
from triage.maker.metamorphic import (
    RENAMED,
    SCALED,
    SCALED_CASES,
    SHIFTED,
    Known,
    renamed,
    scaled_gate,
    shifted,
    told,
)
from triage.maker.model import Gate, Score
from triage.maker.scoring import Settings, got
from triage.maker.variants import CHANGED, asked_again, sets_backwards
from triage.model.case import LabelledCase
from triage.model.query import query_digest
from triage.trial.answers import Remembering
from triage.trial.model import Candidate, Trials, Tried

POLICY, SOURCES, DETERMINISM, BUDGET = "policy", "sources", "determinism", "budget"
QUERIES, HELDOUT, INTERPRETERS = "queries", "heldout", "interpreters"
GATES = (
    POLICY,
    SOURCES,
    DETERMINISM,
    BUDGET,
    QUERIES,
    HELDOUT,
    SHIFTED,
    RENAMED,
    SCALED,
    INTERPRETERS,
)
"""In the order they are told. The last is checked by a promotion, the others of a candidate."""

MIN_HELDOUT = 0.9
"""The least share of held-out cases for a node's first tool, which has no active one to be no worse
than. First versions of the reference system got 94.5 %; of the 150 held-out cases it had a node,
such a tool gets less than 90 % once in a hundred times."""


class ActiveVersion(NamedTuple):
    """What decides for the node now. `max_queries` is as its manifest has it, 0 where it was never
    counted: then it is counted on the held-out cases."""

    version: int
    candidate: Candidate
    max_queries: int = 0


class Allowed(NamedTuple):
    """What a person lets a candidate do, and why; empty for what is not allowed.

    `more_queries` than the active version; a verdict that follows the `calendar`, or the names of
    `sites`.
    """

    more_queries: str = ""
    calendar: str = ""
    sites: str = ""

    @property
    def note(self) -> str:
        """The reasons, for the version's history; empty for none."""
        said = (
            ("more queries", self.more_queries),
            ("calendar dates", self.calendar),
            ("names of sites", self.sites),
        )
        return "; ".join(f"{what} allowed: {why}" for what, why in said if why)


NOTHING = Allowed()


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateGates:
    """What `maker.loop` puts a candidate to. Answers are asked of `settings` anew, once a case."""

    active: ActiveVersion | None
    cases: Sequence[LabelledCase]
    heldout_cases: Sequence[LabelledCase]
    trials: Trials
    settings: Settings
    budget_ms: float
    allowed: Allowed = NOTHING

    async def check(self, candidate: Candidate, train: Score, heldout: Score) -> list[Gate]:
        """Every gate of GATES but the last, in their order.

        `train` and `heldout` are the candidate's scores on `cases` and `heldout_cases`. Runs each
        case six times more, at last moved in time and under another site's name. A source that the
        policy refuses is not run at all. Raises SandboxFailed. May be cancelled.
        """
        policy = _policy(candidate)
        if not policy.passed:
            why = "not checked: code that the policy refuses is not run"
            return [policy, *(Gate(name, False, why) for name in GATES[1:-1])]
        trials, allowed, scores = self.trials, self.allowed, (train, heldout)
        known = await _known(candidate, [*self.cases, *self.heldout_cases], trials, self.settings)
        unseen = known[len(self.cases) :]
        return [
            policy,
            _sources(candidate, known, scores),
            await _determinism(candidate, known, trials),
            _budget(scores, self.budget_ms),
            *await _beside_active(self.active, scores, unseen, trials, allowed.more_queries),
            await shifted(candidate, known, trials, calendar=allowed.calendar),
            await renamed(candidate, known, trials, sites=allowed.sites),
            await scaled_gate(candidate, _spread(known), trials),
        ]


async def _known(
    candidate: Candidate, cases: Sequence[LabelledCase], trials: Trials, settings: Settings
) -> list[Known]:
    given = [(setting, Remembering(answers)) for setting, answers in map(settings, cases)]
    tries = await trials.run(candidate, given)
    return [
        Known(case, setting, answers, tried)
        for case, (setting, answers), tried in zip(cases, given, tries, strict=True)
    ]


def _policy(candidate: Candidate) -> Gate:
    file = f"{candidate.node}.py"
    try:
        source = candidate.text.encode()
    except UnicodeEncodeError:
        return Gate(POLICY, False, f"{file}: is not UTF-8 — write plain text")
    checked = check_source(source, file=file, node=candidate.node, dynamic=candidate.dynamic)
    errors = [str(finding) for finding in checked.findings if not finding.warning]
    if errors:
        return Gate(POLICY, False, "; ".join(errors))
    warnings = [str(finding) for finding in checked.findings]
    return Gate(POLICY, True, "; ".join(warnings) or "keeps to the import policy")


def _sources(candidate: Candidate, known: Sequence[Known], scores: Sequence[Score]) -> Gate:
    declared = ", ".join(candidate.sources) or "none"
    found = [
        (one.case, one.tried.detail)
        for one in known
        if one.tried.failure == ToolFailure.UNDECLARED_SOURCE.value
    ]
    found += [
        (mismatch.case, mismatch.tried.detail)
        for score in scores
        for mismatch in score.mismatches
        if mismatch.tried.failure == ToolFailure.UNDECLARED_SOURCE.value
    ]
    if found:
        case, detail = found[0]
        ids = {case.case_id for case, _ in found}
        return Gate(
            SOURCES,
            False,
            f"asks what the node does not declare in {len(ids)} cases, such as {case.case_id}: "
            f"{detail} — ask only {declared}, or declare the source in the procedure",
        )
    if not known:
        return Gate(SOURCES, False, "could not be checked: there are no cases")
    return Gate(SOURCES, True, f"asks only what the node declares: {declared}")


async def _determinism(candidate: Candidate, known: Sequence[Known], trials: Trials) -> Gate:
    """The cases again: in the opposite order, in another session; each several times in one
    session; and with the members of sets in the opposite order."""
    if not known:
        return Gate(DETERMINISM, False, "could not be checked: there are no cases")
    backwards = list(reversed(known))
    again = candidate._replace(text=asked_again(candidate.text, dynamic=candidate.dynamic))
    unordered = candidate._replace(text=sets_backwards(candidate.text))
    found: list[str] = []
    for one, how in (
        (candidate, "in another order and session"),
        (again, "several times in one session: keep no state between calls"),
        (unordered, "with sets in another order: sort what is gone through"),
    ):
        tries = await trials.run(one, [(each.setting, each.answers) for each in backwards])
        unlike = [
            (before, now)
            for before, now in zip(backwards, tries, strict=True)
            if _said(before.tried) != _said(now)
        ]
        if unlike:
            before, now = unlike[0]
            found.append(
                f"{len(unlike)} of {len(known)} cases, such as {before.case.case_id}, come out "
                f"otherwise {how}: {told(before.tried)}, then {_then(before.tried, now)}"
            )
    if found:
        return Gate(DETERMINISM, False, "; ".join(found))
    return Gate(DETERMINISM, True, f"{len(known)} cases come out the same however they are asked")


def _said(tried: Tried) -> str:
    """All that must be the same. By repr, which tells every bit of a float and makes NaN equal."""
    if not tried.ok:
        # Its detail may name a line, which the rewritten source has elsewhere.
        return tried.failure
    asked = sorted(query_digest(one.query) for one in tried.asked)
    return repr((tried.value, tried.subject, tried.clauses, asked))


def _then(before: Tried, now: Tried) -> str:
    if CHANGED in now.detail:
        return f"it {CHANGED}"
    if (before.value, before.subject) != (now.value, now.subject) or not now.ok:
        return told(now)
    return "the same verdict from other " + (
        "clauses" if before.clauses != now.clauses else "queries"
    )


def _budget(scores: Sequence[Score], budget_ms: float) -> Gate:
    ended = [
        mismatch
        for score in scores
        for mismatch in score.mismatches
        if mismatch.tried.failure == FallbackFailure.SANDBOX.value
    ]
    if ended:
        first = ended[0]
        return Gate(
            BUDGET,
            False,
            f"{len(ended)} cases were ended by the sandbox, such as {first.case.case_id}: "
            f"{first.tried.detail} — bound loops and what is kept",
        )
    if not any(score.total for score in scores):
        return Gate(BUDGET, False, "could not be checked: there are no cases")
    p95_ms = max(score.p95_ms for score in scores)
    said = f"p95 of an evaluation in the sandbox is {p95_ms:.1f} ms, the node's budget "
    said += f"{budget_ms:g} ms"
    if p95_ms > budget_ms:
        return Gate(BUDGET, False, f"{said} — do less, or raise make.budget_ms")
    return Gate(BUDGET, True, said)


async def _beside_active(
    active: ActiveVersion | None,
    scores: tuple[Score, Score],
    heldout: Sequence[Known],
    trials: Trials,
    more_queries: str,
) -> list[Gate]:
    """`queries` and `heldout`: both may need the active version's own run, on the same answers."""
    tries: list[Tried] = []
    if active is not None and heldout:
        given = [(one.setting, one.answers) for one in heldout]
        tries = await trials.run(active.candidate, given)
    return [
        _queries(active, scores, tries, more_queries),
        _heldout(active, scores[1], heldout, tries),
    ]


def _queries(
    active: ActiveVersion | None, scores: Sequence[Score], tries: Sequence[Tried], reason: str
) -> Gate:
    most = max(score.max_queries for score in scores)
    if active is None:
        return Gate(QUERIES, True, f"asks at most {most}; no version is active to ask fewer")
    before = active.max_queries or max((len(tried.asked) for tried in tries), default=0)
    said = f"asks at most {most}, version {active.version} at most {before}"
    if not before and not tries:
        return Gate(
            QUERIES,
            False,
            f"could not be checked: how many version {active.version} asks is not "
            "known, and there are no held-out cases to count on",
        )
    if most <= before:
        return Gate(QUERIES, True, said)
    if reason:
        return Gate(QUERIES, True, f"{said}; allowed, because {reason}")
    return Gate(QUERIES, False, f"{said} — ask fewer, or allow more and say why")


def _heldout(
    active: ActiveVersion | None, heldout: Score, known: Sequence[Known], tries: Sequence[Tried]
) -> Gate:
    if not heldout.total or not known:
        return Gate(HELDOUT, False, "could not be checked: there are no held-out cases")
    said = f"{heldout.passed} of {heldout.total} held-out cases right"
    if active is None:
        if heldout.rate >= MIN_HELDOUT:
            return Gate(HELDOUT, True, said)
        return Gate(
            HELDOUT,
            False,
            f"{said}, a first tool needs {MIN_HELDOUT:.0%} — add cases, or make "
            "the node's text plainer",
        )
    right = sum(
        got(one.case, tried) == one.case.expected for one, tried in zip(known, tries, strict=True)
    )
    said += f", version {active.version} {right}"
    # As rates, without a division that rounds: both are of the same cases.
    if heldout.passed * len(known) >= right * heldout.total:
        return Gate(HELDOUT, True, said)
    return Gate(HELDOUT, False, f"{said} — a new version must be no worse than the active one")


def _spread(known: Sequence[Known]) -> list[Known]:
    """By turns of each verdict, so that the first SCALED_CASES hold some of all."""
    by_value: dict[str, list[Known]] = {}
    for one in known:
        by_value.setdefault(one.tried.value, []).append(one)
    rounds = max(map(len, by_value.values()), default=0)
    return [
        cases[place]
        for place in range(min(rounds, SCALED_CASES))
        for cases in by_value.values()
        if place < len(cases)
    ]
