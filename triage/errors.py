"""Every error this project raises, split by who must act on it.

::

    TriageError
    ├── ConfigError              a person fixes a file, then starts or reloads again
    │   └── InvalidFiles         … with one finding per fault: file, line, what, how to mend it
    ├── PayloadError             the sender fixes the request (4xx); names the field
    ├── StoreError               nobody: retried; the alert is still durable or was never accepted
    │   └── Overloaded           the sender retries after `retry_after_s` (429/503)
    ├── ToolFailed               the fallback answers for the node, or the node is failed
    ├── SourceFailed             nobody: the node is failed and the decision escalates
    ├── ModelFailed              nobody: the fallback ends and the node is failed
    ├── SandboxFailed            nobody: likewise
    └── DeliveryRejected         a sink refused for good; the outbox row is given up

`reason` is stable: it is the metric label and the word in a decision. `str(error)` is for people.
`ToolFailed` and `SourceFailed` are turned into values before they reach a task group, because one
raising child cancels its siblings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class TriageError(Exception):
    """Root of the tree. `reason` is a short stable word, bounded in number."""

    reason: str = "error"


class ConfigError(TriageError):
    """The configuration cannot be used; `str()` says what, where and what to do."""

    reason = "config"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One fault in a file a person wrote.

    `line` is 1-based, 0 when the fault has no line (a missing file). `where` is the id of the node,
    action, site or tool, empty when the fault is the file's own. `fix` is what to do next.
    """

    file: str
    line: int = 0
    where: str = ""
    problem: str
    fix: str = ""
    warning: bool = False

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        subject = f" {self.where}:" if self.where else ""
        fix = f" — {self.fix}" if self.fix else ""
        return f"{place}:{subject} {self.problem}{fix}"


class InvalidFiles(ConfigError):
    """One or more files were refused; `findings` lists every fault found, not only the first."""

    reason = "invalid_files"

    def __init__(self, findings: Sequence[Finding]) -> None:
        self.findings = tuple(findings)
        super().__init__("\n".join(str(finding) for finding in self.findings))


class PayloadError(TriageError):
    """A request, or one alert in it, cannot be an alert.

    `field` is the dotted path of the offending field in the sender's own document.
    """

    reason = "payload"

    def __init__(self, field: str, problem: str) -> None:
        self.field = field
        self.problem = problem
        super().__init__(f"{field}: {problem}" if field else problem)


class StoreError(TriageError):
    """The store did not do what was asked; nothing of the operation is durable."""

    reason = "store"


class QueueError(TriageError):
    """The queue, or a producer's stream, did not do what was asked. What it holds may be lost: the
    store is the record."""

    reason = "queue"


class Overloaded(StoreError):
    """More is pending than the configuration allows; ask again after `retry_after_s` seconds."""

    reason = "overloaded"

    def __init__(self, problem: str, retry_after_s: int) -> None:
        self.retry_after_s = retry_after_s
        super().__init__(problem)


class ToolFailure(StrEnum):
    """Why a tool could not answer. Entitles the node to the fallback."""

    MISSING = "tool_missing"
    RETIRED = "tool_retired"
    TAMPERED = "tool_tampered"
    QUARANTINED = "tool_quarantined"
    RAISED = "tool_raised"
    INVALID_QUERIES = "invalid_queries"
    INVALID_RESULT = "invalid_result"
    QUERY_REJECTED = "query_rejected"
    ANSWER_TOO_LARGE = "answer_too_large"
    UNDECLARED_SOURCE = "undeclared_source"


class SourceFailure(StrEnum):
    """Why a source gave no answer. Never entitles the node to the fallback."""

    CONNECT = "source_connect"
    TIMEOUT = "source_timeout"
    SERVER_ERROR = "source_server_error"
    PROTOCOL = "source_protocol"
    BREAKER_OPEN = "source_breaker_open"
    DEADLINE = "deadline"
    UNRECORDED = "unrecorded"


class ToolFailed(TriageError):
    """The tool, or what it asked for, is at fault. Raised by sources too, for a rejected query."""

    def __init__(self, failure: ToolFailure, detail: str) -> None:
        self.failure = failure
        self.reason = failure.value
        self.detail = detail
        super().__init__(f"{failure.value}: {detail}")


class SourceFailed(TriageError):
    """The source could not be asked or did not answer in time."""

    def __init__(self, failure: SourceFailure, detail: str) -> None:
        self.failure = failure
        self.reason = failure.value
        self.detail = detail
        super().__init__(f"{failure.value}: {detail}")


class FallbackFailure(StrEnum):
    """Why a node whose tool failed has no verdict from the fallback either."""

    SATURATED = "fallback_saturated"
    """Every slot of the slow lane was taken."""
    TIMEOUT = "fallback_timeout"
    TURNS = "fallback_turns"
    TOKENS = "fallback_tokens"
    REPEATED = "fallback_repeated"
    """The same code, or the same call with the same result, a third time."""
    NO_CODE = "fallback_no_code"
    """No reply held code that could be run."""
    MODEL = "fallback_model"
    """The endpoint did not answer, or refused; or its breaker is open."""
    SANDBOX = "fallback_sandbox"
    SOURCE = "fallback_source"
    """A source that the verdict would rest on did not answer."""
    OFF = "fallback_off"
    """Configured, and not able to run: readiness says why."""


class ModelFailure(StrEnum):
    """Why an endpoint gave no completion."""

    CONNECT = "model_connect"
    TIMEOUT = "model_timeout"
    SERVER_ERROR = "model_server_error"
    RATE_LIMITED = "model_rate_limited"
    REJECTED = "model_rejected"
    """4xx: the key, the model's name or the request is at fault."""
    PROTOCOL = "model_protocol"
    BREAKER_OPEN = "model_breaker_open"
    BUSY = "model_busy"
    """Every request that may be under way at once was, for the whole time that was left."""


class ModelFailed(TriageError):
    """No completion. `detail` holds no secret and at most a line of what the endpoint said."""

    def __init__(self, failure: ModelFailure, detail: str) -> None:
        self.failure = failure
        self.reason = failure.value
        self.detail = detail
        super().__init__(f"{failure.value}: {detail}")


class SandboxFailed(TriageError):
    """The sandbox itself could not run the code: no worker, or it cannot start."""

    reason = "sandbox"


class DeliveryRejected(TriageError):
    """A sink answered that it will never take this message."""

    reason = "rejected"
