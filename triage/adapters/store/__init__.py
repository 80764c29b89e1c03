"""The durable store and the embedded queue, on one SQLite file."""

from triage.adapters.store.store import Store

__all__ = ["Store"]
