"""Shadows for people. Documents are those of `tally_document` and `comparison_document`.

A document that is none raises KeyError, TypeError, ValueError or AttributeError.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from triage.cli.output import cell

Document = Mapping[str, Any]

SHORT = 12  # characters of a SHA-256
_NOT_COUNTED = ("unrecorded", "failed", "dropped")


def report_view(report: Document) -> RenderableType:
    """One pair with its newest comparisons, and the other pairs of the node in a line each."""
    tally = report["shadow"]
    facts = Table.grid(padding=(0, 2, 0, 0))
    facts.add_column(style="dim", no_wrap=True)
    facts.add_column(overflow="fold")
    for name, value in _facts(tally, report["others"]):
        facts.add_row(name, value)
    found = report["comparisons"]
    total = tally["counts"][report["result"]]
    head = f"\n{report['result']}: the newest {len(found)} of {total}" if found else ""
    told = [Padding(_comparison(one), (0, 0, 0, 2)) for one in found]
    return Group(facts, *([Text(head, style="dim")] if found else []), *told)


def _facts(tally: Document, others: Sequence[Document]) -> Iterator[tuple[str, Text]]:
    counts = tally["counts"]
    yield "node", cell(tally["node"], "bold")
    yield "shadow", cell(_version(tally, "shadow"), "cyan")
    yield "active", cell(_version(tally, "active"), "green")
    yield "since", cell(f"{tally['first_at']} to {tally['last_at']}")
    left_out = ", ".join(f"{counts[name]} {name}" for name in _NOT_COUNTED if counts[name])
    compared = f"{tally['compared']} verdicts"
    yield "compared", cell(f"{compared}; beside these {left_out}" if left_out else compared)
    yield "agreement", _agreement(tally)
    if tally["other_clauses"]:
        yield "clauses", cell(f"{tally['other_clauses']} agree by other clauses", "yellow")
    for number, one in enumerate(tally["needed"]):
        yield "" if number else "needed", cell(_needed(one, tally["compared"]), "dim")
    for number, other in enumerate(others):
        yield "" if number else "others", cell(_other(other), "dim")


def _agreement(tally: Document) -> Text:
    if tally["agreement"] is None:
        return cell("nothing was compared", "yellow")
    low, high = tally["interval"]
    return cell(
        f"{_percent(tally['agreement'])} ({tally['agree']} of {tally['compared']}),"
        f" 95 % confidence {_percent(low)} to {_percent(high)}",
        "bold green" if tally["agree"] == tally["compared"] else "bold yellow",
    )


def _needed(one: Document, compared: int) -> str:
    bound, every = _percent(one["bound"]), one["if_all_agree"]
    if one["comparisons"] is None:
        said = f"at no number of this agreement; {every} if all agree"
    elif one["comparisons"] <= compared:
        return f"at least {bound}: there"
    elif one["comparisons"] == every:
        said = f"{every} comparisons"
    else:
        said = f"{one['comparisons']} comparisons of this agreement; {every} if all agree"
    return f"at least {bound}: {said}"


def _other(tally: Document) -> str:
    share = "nothing compared" if tally["agreement"] is None else _percent(tally["agreement"])
    return (
        f"v{tally['shadow_version']} beside v{tally['active_version']}:"
        f" {share} of {tally['compared']}, until {tally['last_at']}"
    )


def _version(tally: Document, which: str) -> str:
    return f"v{tally[f'{which}_version']} {str(tally[f'{which}_sha256'])[:SHORT]}"


def _comparison(one: Document) -> Group:
    where = f" at {one['site']}" if one["site"] else ""
    lines = [cell(f"{one['at']}  alert {one['alert_id']}{where}")]
    for name, style in (("active", "green"), ("shadow", "cyan")):
        lines += _verdict(name, one[name], style)
    if one["evidence"]:
        digests = ", ".join(str(digest)[:SHORT] for digest in one["evidence"])
        lines.append(cell(f"  answers: {digests}", "dim"))
    return Group(*lines)


def _verdict(name: str, verdict: Document, style: str) -> list[Text]:
    head = cell(f"  {name}: ")
    if "failure" in verdict:
        return [head.append_text(cell(f"{verdict['failure']}: {verdict['detail']}", "red"))]
    subject = f" of {verdict['subject']}" if verdict["subject"] else ""
    head.append_text(cell(f"{verdict['value']}{subject}", style))
    lines = [head.append_text(cell(f"  {verdict['explanation']}", "dim"))]
    for clause in verdict["clauses"]:
        unit = f" {clause['unit']}" if clause["unit"] else ""
        held = {True: "holds", False: "does not hold", None: "nothing to compare"}[clause["holds"]]
        compared = f"{clause['observed']} {clause['op']} {clause['threshold']}{unit}"
        lines.append(cell(f"    {clause['name']}: {compared}, {held}", "dim"))
    return lines


def _percent(share: float) -> str:
    """Never rounded up to a whole that it is not."""
    text = f"{100 * share:.2f}"
    if text == "100.00" and share < 1:
        text = "99.99"
    return f"{text.rstrip('0').rstrip('.') if '.' in text else text} %"
