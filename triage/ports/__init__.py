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

from triage.ports.delivery import (
    PATIENCE,
    Brokered,
    Delivery,
    Queue,
    Sink,
    Stream,
    StreamMessage,
    served_first,
)
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
    Backlog,
    CommitStatus,
    DeadLetter,
    DeadLetterLog,
    DeadLetterPage,
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
    Purged,
    Retention,
    StoredAlert,
)
from triage.ports.sources import Catalogued, Clock, Connecting, Source

__all__ = [
    "PATIENCE",
    "AlertLog",
    "AlertStatus",
    "AlertView",
    "Backlog",
    "Brokered",
    "CallAnswer",
    "Catalogued",
    "ChatMessage",
    "ChatModel",
    "Clock",
    "CommitStatus",
    "Completion",
    "Connecting",
    "DeadLetter",
    "DeadLetterLog",
    "DeadLetterPage",
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
    "Purged",
    "Queue",
    "Retention",
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
    "Stream",
    "StreamMessage",
    "served_first",
]
