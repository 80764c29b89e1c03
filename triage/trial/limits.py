"""What trying a tool may use up."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialLimits:
    """Times are seconds, sizes bytes. They are bounds against code that does not end, not a budget:
    whether a tool is fast enough is judged by `Tried.elapsed_ms`.

    `evaluate_s` is what one setting may take while its code runs, `load_s` what the file's top
    level may; `answers_s` is for waiting for the answers of one setting, all together.
    `answer_bytes` bounds one encoded answer, and must not be more than what the sandbox lets a host
    function give.

    A session is begun anew after `settings_a_session`. Of one that holds several settings no one
    run lasts longer than `run_s`, which must leave `evaluate_s` of what the sandbox gives a run.
    After `strikes` settings of one call that ended at a limit the rest of them fails untried.
    """

    evaluate_s: float = 2.0
    load_s: float = 5.0
    answers_s: float = 30.0
    answer_bytes: int = 1 << 20
    settings_a_session: int = 100
    run_s: float = 5.0
    strikes: int = 3
