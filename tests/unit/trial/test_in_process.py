"""What only an approved tool can be: run by the daemon's own code."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.trial.trial_world import candidate, depth, judging, setting, stepping, tool_of
from triage.model.verdict import Truth, Verdict
from triage.trial.in_process import ApprovedTrials
from triage.trial.limits import TrialLimits


async def test_only_the_approved_text_is_run() -> None:
    trials = ApprovedTrials(tool_of(candidate()), limits=TrialLimits(), monotonic=lambda: 0.0)
    with pytest.raises(ValueError, match=r"not the approved obs_depth/v1\.py"):
        await trials.run(candidate(judging("return no_data('x')")), [(setting(), depth())])


async def test_a_tool_that_waits_for_nothing_is_cut_off() -> None:
    """No text could be such a tool: it cannot import asyncio."""

    async def evaluate(*_arguments: Any) -> Verdict:
        await asyncio.Event().wait()
        return Verdict(Truth.TRUE)

    one = candidate(stepping("return no_data('x')"), dynamic=True)
    tool = replace(tool_of(one), evaluate=evaluate)
    limits = TrialLimits(evaluate_s=0.01, answers_s=0.01)
    trials = ApprovedTrials(tool, limits=limits, monotonic=lambda: 0.0)
    [tried] = await trials.run(one, [(setting(), depth())])
    assert (tried.failure, tried.detail) == ("deadline", "cut off after 0.02 s")
