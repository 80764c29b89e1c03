"""Relations between a case and a changed one, which catch answers that were written down.

*Shifted*: the case and all its answers a number of whole weeks later, by the site's clocks at the
same hour of the same weekday and with the same offset from UTC: the verdict must stay. What was
written down by timestamp, by its hash or by parts of its date does not. What legitimately does not
survive is logic by calendar date (the last of a month, a holiday); a person says so, with a reason
that is kept.

*Renamed*: the site by another name, in the alert and in every answer: the verdict must stay. Only
the site: entities are numbered by place, and tools rightly reckon with the number (a chute's lane,
a door's neighbour), so that no other entity stands for one.

*Scaled*: the numbers of the answers times 0, 0.01 and 100, and answers without content: some
verdict of some case must change. A tool whose verdicts never do does not read its data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from triage.maker.instants import Shift, instants_of, weeks_for
from triage.maker.model import Gate
from triage.maker.replayed import (
    Changed,
    Moved,
    Renamed,
    Renaming,
    emptied,
    nulled,
    scaled,
    texts,
)
from triage.model.case import LabelledCase
from triage.model.query import decode_answer, query_digest
from triage.trial.model import Answers, Candidate, Setting, Trials, Tried

SHIFTED, RENAMED, SCALED = "shifted", "renamed", "scaled"
SCALED_CASES = 30
SINGLE_QUERIES = 8  # of a case, whose answers are also changed one at a time
CHANGES = (scaled(0.0), scaled(0.01), scaled(100.0), emptied, nulled)
CHANGES_SAID = "numbers times 0, 0.01 and 100, or answers without content"
EXAMPLES = 3


class Known(NamedTuple):
    """A case, and what the candidate says of it as it is. `answers` give the same whenever they are
    asked."""

    case: LabelledCase
    setting: Setting
    answers: Answers
    tried: Tried


async def shifted(
    candidate: Candidate, known: Sequence[Known], trials: Trials, *, calendar: str = ""
) -> Gate:
    """`calendar` is why a verdict may depend on the date, empty when none may."""
    cases: list[tuple[Known, str]] = []
    work: list[tuple[Setting, Answers]] = []
    unmoved = 0
    for one in _answered(known):
        shift = _shift(one)
        if shift is None:
            unmoved += 1
            continue
        cases.append((one, one.tried.subject))
        work.append((_moved(one.setting, shift), Moved(one.answers, shift)))
    left_out = f"; {unmoved} have no week with the same offsets from UTC" if unmoved else ""
    if not work:
        return _unchecked(SHIFTED, f"no case could be moved in time{left_out}")
    found = _changed(cases, await trials.run(candidate, work))
    if not found:
        return Gate(
            SHIFTED, True, f"the same verdicts of {len(work)} cases some weeks away{left_out}"
        )
    said = f"{len(found)} of {len(work)} cases moved by whole weeks, answers and all, are judged "
    said += f"otherwise{left_out}: {_examples(found)}"
    fix = "judge by the answers and by times relative to `timestamp`, not by dates; where the "
    fix += "procedure is about calendar dates, say so with a reason"
    return _unless_allowed(SHIFTED, said, fix, calendar)


async def renamed(
    candidate: Candidate, known: Sequence[Known], trials: Trials, *, sites: str = ""
) -> Gate:
    """`sites` is why a verdict may depend on the site's name, empty when none may."""
    cases: list[tuple[Known, str]] = []
    work: list[tuple[Setting, Answers]] = []
    for one in _answered(known):
        if not one.setting.site.name:
            continue
        renaming = Renaming(one.setting.site.name)
        cases.append((one, renaming.there(one.tried.subject)))
        work.append((_called(one.setting, renaming), Renamed(one.answers, renaming)))
    if not work:
        return _unchecked(RENAMED, "no case that names a site was answered")
    found = _changed(cases, await trials.run(candidate, work))
    if not found:
        return Gate(RENAMED, True, f"the same verdicts of {len(work)} cases under another site")
    said = f"{len(found)} of {len(work)} cases are judged otherwise when their site has another "
    said += f"name: {_examples(found)}"
    fix = "what differs from site to site stands in `context.params`, `context.site.units` and "
    fix += "`context.site.facts`; where the procedure names a site, say so with a reason"
    return _unless_allowed(RENAMED, said, fix, sites)


async def scaled_gate(
    candidate: Candidate, known: Sequence[Known], trials: Trials, *, most: int = SCALED_CASES
) -> Gate:
    """Ends with the first case whose verdict changes: most tools need one or two."""
    if not candidate.sources:
        return Gate(SCALED, True, "the node declares no source to read")
    cases = _answered(known)[:most]
    if not cases:
        return _unchecked(SCALED, "no case was answered")
    for count, one in enumerate(cases, start=1):
        work = [(one.setting, answers) for answers in _variations(one)]
        for tried in await trials.run(candidate, work):
            # A tool that fails on what no source would answer has not changed its mind.
            if tried.ok and tried.value != one.tried.value:
                return Gate(SCALED, True, f"a verdict follows the answers, seen in {count} cases")
    return Gate(
        SCALED,
        False,
        f"of {len(cases)} cases no verdict changes, whatever the answers say ({CHANGES_SAID}) — "
        "judge by what the sources answer",
    )


def _answered(known: Sequence[Known]) -> list[Known]:
    return [one for one in known if one.tried.ok]


def _variations(one: Known) -> list[Answers]:
    found: list[Answers] = [Changed(one.answers, change) for change in CHANGES]
    digests = [query_digest(asked.query) for asked in one.tried.asked[:SINGLE_QUERIES]]
    if len(digests) > 1:
        found += [
            Changed(one.answers, change, only=digest) for digest in digests for change in CHANGES
        ]
    return found


def _shift(one: Known) -> Shift | None:
    around, zone = one.setting.timestamp, one.setting.site.zone
    instants = {around}
    for asked in one.tried.asked:
        if asked.body:
            answer = decode_answer(asked.body)
            instants.update(instants_of(asked.query, answer, around, zone))
    weeks = weeks_for(instants, zone)
    return None if weeks is None else Shift(7 * weeks, around)


def _moved(setting: Setting, shift: Shift) -> Setting:
    labels = {name: shift.text(value) for name, value in setting.labels.items()}
    return setting._replace(timestamp=setting.timestamp + shift.by, labels=labels)


def _called(setting: Setting, renaming: Renaming) -> Setting:
    return setting._replace(
        site=replace(setting.site, name=renaming.after),
        entity=renaming.there(setting.entity),
        labels=texts(dict(setting.labels), renaming.there),
    )


def _changed(
    cases: Sequence[tuple[Known, str]], tries: Sequence[Tried]
) -> list[tuple[Known, Tried]]:
    """`cases` with the subject that each must have after the change."""
    return [
        (one, now)
        for (one, subject), now in zip(cases, tries, strict=True)
        if (now.value, now.subject) != (one.tried.value, subject)
    ]


def _examples(found: Sequence[tuple[Known, Tried]]) -> str:
    said = "; ".join(
        f"case {one.case.case_id} {told(one.tried)}, then {told(now)}"
        for one, now in found[:EXAMPLES]
    )
    return said + ("; …" if len(found) > EXAMPLES else "")


def told(tried: Tried) -> str:
    """What came of a trial, in few words."""
    if tried.ok:
        return f"{tried.value} of {tried.subject}" if tried.subject else tried.value
    return f"{tried.value}: {tried.failure}: {tried.detail}"


def _unless_allowed(name: str, said: str, fix: str, reason: str) -> Gate:
    """`reason` is why what was found may be, empty when it may not."""
    if reason:
        return Gate(name, True, f"allowed, because {reason}; {said}")
    return Gate(name, False, f"{said} — {fix}")


def _unchecked(name: str, why: str) -> Gate:
    return Gate(name, False, f"could not be checked: {why}")
