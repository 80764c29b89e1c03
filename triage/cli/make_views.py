"""What came of making a tool, for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from triage.app.make import Outcome
from triage.cli.output import cell, columns
from triage.maker.model import Gate, Made, Round, Score
from triage.maker.scoring import failures
from triage.maker.shown import WRONG_SUBJECT
from triage.ports import WatchFinding

SHA_CHARS = 12
DIAGNOSIS_CHARS = 300
CASES_SHOWN = 5


def outcome_view(outcome: Outcome) -> RenderableType:
    """What was done, round by round; how good the best is; and what the gates say."""
    made = outcome.made
    parts: list[RenderableType] = [_head(outcome)]
    if made.rounds:
        parts += [Text(), rounds_table(made)]
    for title, score in (("training", made.train), ("held-out", made.heldout)):
        if score is not None:
            parts += [Text(), cell(f"{title} cases, expected by predicted", "bold")]
            parts.append(confusion_table(score))
    if made.gates:
        parts += [Text(), gates_table(made.gates)]
    parts += [one for finding in outcome.ambiguous for one in (Text(), *_ambiguity(finding))]
    return Group(*parts)


def following(outcome: Outcome, *, dry_run: bool) -> Iterator[str]:
    """What to do next, a line each."""
    made = outcome.made
    node = made.node
    if made.version is not None:
        yield f"beside the active version:  triage tools shadow {node} --start {made.version}"
        yield f"in its place:               triage tools promote {node} {made.version}"
        return
    if made.problem:
        yield f"{node}: {made.problem}"
    refused = [gate for gate in made.gates if not gate.passed]
    if refused:
        names = ", ".join(gate.name for gate in refused)
        yield f"{node}: nothing was registered: {names} refused it"
    elif made.best is None:
        yield f"{node}: nothing was registered: no candidate came of it"
    elif dry_run and made.gates:
        yield f"{node}: every gate lets it pass; without --dry-run it would be registered"
    if made.best is not None and not dry_run:
        yield f"the candidate and all that was said: made/last.json in the folder of {node}"


def rounds_table(made: Made) -> Table:
    table = columns("round", "source", "right", "rate", "failed", "p95", "")
    for one in made.rounds:
        best = made.best is not None and one.number == made.best.number
        name = "first" if one.number == 0 else f"repair {one.number}"
        table.add_row(
            cell(f"{name}{' *' if best else ''}", "bold" if best else ""),
            cell(one.sha256[:SHA_CHARS] or "-"),
            *_figures(one.score),
            cell(_said(one), "dim"),
        )
    return table


def confusion_table(score: Score) -> Table:
    words = sorted({expected for expected, _ in score.confusion})
    got = sorted({word for _, word in score.confusion})
    table = columns("", *(_word(word) for word in got))
    for expected in words:
        table.add_row(
            cell(expected),
            *(
                cell(count or "", "" if word == expected else "red")
                for word in got
                for count in [score.confusion.get((expected, word), 0)]
            ),
        )
    return table


def gates_table(gates: Sequence[Gate]) -> Table:
    table = columns("gate", "", "what was found")
    for gate in gates:
        passed = cell("passed", "green") if gate.passed else cell("refused", "bold red")
        table.add_row(cell(gate.name), passed, cell(gate.detail))
    return table


def _head(outcome: Outcome) -> Text:
    made = outcome.made
    text = cell(made.node, "bold")
    right = sum(trace.right is True for trace in made.traces)
    traces = f"{len(made.traces)} traces, {right} of them right" if made.traces else "no traces"
    text.append_text(
        cell(
            f"  {outcome.train} training and {outcome.heldout} held-out cases, {traces};"
            f" {made.tokens} tokens, {made.seconds:.1f} s"
        )
    )
    return text


def _figures(score: Score | None) -> Sequence[Text]:
    if score is None:
        return [cell("-")] * 4
    return [
        cell(f"{score.passed}/{score.total}"),
        cell(f"{100 * score.rate:.1f} %"),
        cell(failures(score) or ""),
        cell(f"{score.p95_ms:.1f} ms"),
    ]


def _said(one: Round) -> str:
    said = " ".join((one.refused or one.diagnosis).split())
    return said if len(said) <= DIAGNOSIS_CHARS else f"{said[: DIAGNOSIS_CHARS - 1]}…"


def _word(word: str) -> str:
    return "wrong subject" if word.endswith(WRONG_SUBJECT) else word


def _ambiguity(finding: WatchFinding) -> Iterator[Text]:
    cases = [str(case) for case in finding.evidence.get("cases", ())]
    more = f" and {len(cases) - CASES_SHOWN} more" if len(cases) > CASES_SHOWN else ""
    yield cell(f"The text can be read in more than one way: “{finding.subject}”", "yellow")
    yield cell(f"{finding.detail}: {', '.join(cases[:CASES_SHOWN])}{more}")
