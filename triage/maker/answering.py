"""A labelled case as a tool meets it: what it may see, and where its answers come from."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from triage.evaluation.answers import Fetcher
from triage.maker.from_gap import case_settings
from triage.model.case import LabelledCase
from triage.sop.sites import Sites
from triage.trial.answers import LiveAnswers, Remembering
from triage.trial.limits import TrialLimits
from triage.trial.model import Answers, Setting


class CaseSettings:
    """A `maker.scoring.Settings`. `live` are the sources to ask for what a case has no recorded
    answer to, none where only recordings are to be used; they are open meanwhile.

    A live source is asked for each query once: every candidate, round and gate asks the same cases,
    of a past that does not change.
    """

    def __init__(
        self, sites: Sites, live: Mapping[str, Fetcher], *, monotonic: Callable[[], float]
    ) -> None:
        beyond: Answers | None = None
        if live:
            asked = LiveAnswers(live, monotonic=monotonic, timeout_s=TrialLimits().answers_s)
            beyond = Remembering(asked)
        self._settings = case_settings(sites, beyond)

    def __call__(self, case: LabelledCase) -> tuple[Setting, Answers]:
        return self._settings(case)
