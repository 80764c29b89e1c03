"""How a tool makes a moment: what CPython finds on one, and the sandbox on its class alone."""

from __future__ import annotations

import pytest

from tests.unit.trial.trial_world import both, candidate, depth, in_sandbox, judging, setting
from triage.library.policy import check_source
from triage.library.rules import MOMENT_MAKERS
from triage.trial.model import Candidate

MAKING = {
    "combine": "(timestamp.date(), timestamp.time(), UTC)",
    "fromisoformat": "('2026-11-18T15:07:00+00:00')",
    "fromtimestamp": "(1_800_000_000.5, tz=UTC)",
    "strptime": "('18.11.2026 15:07', '%d.%m.%Y %H:%M')",
    "utcfromtimestamp": "(1_800_000_000)",
    "fromisocalendar": "(2026, 47, 3)",
    "fromordinal": "(739_000)",
}
IMPORTS = "from datetime import UTC, date, datetime\n"


def made(owner: str, name: str) -> Candidate:
    return candidate(IMPORTS + judging(f"return no_data(repr({owner}.{name}{MAKING[name]}))"))


def findings(one: Candidate) -> list[str]:
    checked = check_source(one.text.encode(), file="n.py", node=one.node, dynamic=one.dynamic)
    return [finding.fix for finding in checked.findings]


@pytest.mark.parametrize("name", MOMENT_MAKERS)
async def test_what_the_sandbox_does_not_have_the_policy_refuses(name: str) -> None:
    one = made("timestamp", name)
    assert findings(one) == [MOMENT_MAKERS[name]]
    async with in_sandbox() as trials:
        [tried] = await trials.run(one, [(setting(), depth())])
    assert tried.failure == "tool_raised"
    assert tried.detail.endswith(f"'datetime.datetime' object has no attribute '{name}'")


@pytest.mark.parametrize(
    "name", [name for name in MOMENT_MAKERS if f".{name}" in MOMENT_MAKERS[name]]
)
async def test_what_the_policy_says_to_write_is_the_same_in_both(name: str) -> None:
    one = made("datetime", name)
    assert findings(one) == []
    tried = await both(one, setting(), depth)
    assert (tried.value, tried.detail) == ("no_data", "")
