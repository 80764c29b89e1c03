"""The process that runs a version in CPython while it is being approved.

It has an empty folder, no environment to speak of, no descriptors but a pipe each way, and limits
of the kernel on memory, processor time, files and processes. The version itself is verified and
linted as the library does it, and runs as in the daemon.
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
from time import monotonic
from typing import Any

from triage.library.catalogue import Tool
from triage.library.namespace import Broken, Namespaces
from triage.library.policy import check_source
from triage.maker.agreement_wire import answers_of, candidate_of, said_of, setting_of
from triage.model.canonical import sha256_hex
from triage.trial.in_process import ApprovedTrials
from triage.trial.limits import TrialLimits
from triage.trial.model import FAILED, Candidate, Tried

MEMORY_BYTES = 1 << 30
REFUSED = "the library does not load it"


def confine(cpu_s: int) -> None:
    """From here on; `cpu_s` are seconds on the processor."""
    most = {
        resource.RLIMIT_AS: (MEMORY_BYTES, MEMORY_BYTES),
        # First a signal that says why, a second later one that cannot be caught.
        resource.RLIMIT_CPU: (cpu_s, cpu_s + 1),
        resource.RLIMIT_FSIZE: (0, 0),
        resource.RLIMIT_CORE: (0, 0),
        resource.RLIMIT_NPROC: (0, 0),
    }
    for limit, wanted in most.items():
        _, hard = resource.getrlimit(limit)
        bounded = hard != resource.RLIM_INFINITY
        soft, top = (min(value, hard) if bounded else value for value in wanted)
        resource.setrlimit(limit, (soft, top))


def load(candidate: Candidate) -> Tool | str:
    """The version as the library would load it, or why it would not."""
    source = candidate.text.encode()
    name, file = candidate.node, f"{candidate.node}/v1.py"
    checked = check_source(source, file=file, node=name, dynamic=candidate.dynamic)
    if checked.code is None:
        return "; ".join(str(finding) for finding in checked.findings)
    try:
        queries, evaluate = Namespaces().functions(
            checked.code, file=file, node=name, dynamic=candidate.dynamic
        )
    except Broken as broken:
        return "; ".join(str(finding) for finding in broken.findings)
    return Tool(
        node=name,
        version=1,
        sha256=sha256_hex(source),
        dynamic=candidate.dynamic,
        queries=queries,
        evaluate=evaluate,
        file=evaluate.__code__.co_filename,
    )


async def answer(request: dict[str, Any]) -> list[list[Any]]:
    """One (bits, words) a case, as `agreement_wire.Said`."""
    candidate = candidate_of(request["candidate"])
    cases = [(setting_of(one["setting"]), answers_of(one["answers"])) for one in request["cases"]]
    tool = load(candidate)
    if isinstance(tool, str):
        refused = Tried(value=FAILED, failure=REFUSED, detail=tool)
        return [list(said_of(refused))] * len(cases)
    trials = ApprovedTrials(tool, limits=TrialLimits(), monotonic=monotonic)
    return [list(said_of(tried)) for tried in await trials.run(candidate, cases)]


def main() -> None:
    request = json.loads(sys.stdin.buffer.read())
    [cpu_s] = sys.argv[1:]
    confine(int(cpu_s))
    sys.stdout.write(json.dumps(asyncio.run(answer(request))))
    sys.stdout.flush()


if __name__ == "__main__":
    main()
