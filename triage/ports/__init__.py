"""What the runtime needs from the outside, in one place. Adapters conform by shape.

Delivery contract (every queue, one suite of tests):

- `publish` is at least once and may be lost: the store is the record, and the sweeper publishes
  again what nobody holds. Publishing an alert that is already queued changes nothing.
- `receive` hands a delivery to one consumer until its lease ends; then it may go to another.
- The consumer acks after the decision is durable, never before. Acking a delivery whose lease
  was lost is harmless. `extend` returns those still held.
- The idempotency key of all work is the alert id: the store takes one decision for it and the
  loser acks.
"""

from triage.ports.delivery import Delivery, Queue, Sink
from triage.ports.fallback import (
    CallAnswer,
    ChatMessage,
    ChatModel,
    Completion,
    Fallback,
    FallbackAnswer,
    FallbackRequest,
    HostFunction,
    Lane,
    Sandbox,
    SandboxError,
    SandboxRun,
    SandboxSession,
    Shelf,
    SourceCalls,
    SourceTool,
)
from triage.ports.record import (
    AlertLog,
    AlertStatus,
    AlertView,
    CommitStatus,
    DecisionFilter,
    DecisionLog,
    DecisionPage,
    GapGroup,
    GapLog,
    GapPage,
    Ledger,
    LedgerView,
    Message,
    Outbox,
    OutboxRow,
    StoredAlert,
)
from triage.ports.sources import Catalogued, Clock, Connecting, Source

__all__ = [
    "AlertLog",
    "AlertStatus",
    "AlertView",
    "CallAnswer",
    "Catalogued",
    "ChatMessage",
    "ChatModel",
    "Clock",
    "CommitStatus",
    "Completion",
    "Connecting",
    "DecisionFilter",
    "DecisionLog",
    "DecisionPage",
    "Delivery",
    "Fallback",
    "FallbackAnswer",
    "FallbackRequest",
    "GapGroup",
    "GapLog",
    "GapPage",
    "HostFunction",
    "Lane",
    "Ledger",
    "LedgerView",
    "Message",
    "Outbox",
    "OutboxRow",
    "Queue",
    "Sandbox",
    "SandboxError",
    "SandboxRun",
    "SandboxSession",
    "Shelf",
    "Sink",
    "Source",
    "SourceCalls",
    "SourceTool",
    "StoredAlert",
]
