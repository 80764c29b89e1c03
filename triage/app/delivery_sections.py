"""The sections `[store]`, `[queue]` and `[streams]` of `triage.toml`.

`store = "sqlite:///…"` and `queue = "redis://…"` are short for a section with just that `url`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import ByteSize, Field, model_validator

from triage.app.sections import GB, Count, Name, Seconds, Section, Size, Variable

STORES = ("sqlite:///", "postgresql://")
BROKERS = ("redis://", "rediss://", "unix://", "nats://", "tls://")


class Addressed(Section):
    """`url_env` and `url_file` are for a URL that holds a password."""

    SECRETS: ClassVar[tuple[str, ...]] = ("url",)
    SCHEMES: ClassVar[tuple[str, ...]] = ()

    url: Annotated[str, Field(repr=False)] = ""
    url_env: Variable | None = None
    url_file: Path | None = None

    @model_validator(mode="after")
    def _is_of_a_kind(self) -> Self:
        if self.url and not self.url.startswith(self.SCHEMES):
            raise ValueError(f"url must begin with one of {', '.join(self.SCHEMES)}")
        return self

    @property
    def address(self) -> str:
        """The URL, from whichever place names it; it may hold a password: never show it."""
        return self.secret("url") or self.url

    @property
    def elsewhere(self) -> str:
        """The key that names the variable or file with the URL, empty when it is written."""
        if self.url_env is not None:
            return "url_env"
        return "url_file" if self.url_file is not None else ""

    @property
    def is_elsewhere(self) -> bool:
        """Whether the URL comes from a variable or file."""
        return bool(self.elsewhere)


class StoreSection(Addressed):
    """`data` is the folder for what belongs to this process alone; by default that of the SQLite
    file, or `data`. Decided alerts are kept `keep_days`, and fewer when the whole is larger than
    `max_bytes`."""

    SCHEMES = STORES

    url: Annotated[str, Field(repr=False)] = "sqlite:///data/triage.db"
    data: Path | None = None
    max_pending: Count = 10_000
    keep_days: Count = 400
    max_bytes: Size | None = None
    evidence_days: Count = 30
    evidence_max_bytes: Size = ByteSize(5 * GB)


class QueueSection(Addressed):
    """Empty, the queue is the store's own. `name` begins the names of all that is made on a
    server: replicas with the same name share the work."""

    SCHEMES = (*STORES, *BROKERS)

    name: Name = "triage"

    @property
    def is_embedded(self) -> bool:
        return not self.is_elsewhere and (not self.url or self.url.startswith(STORES))


class StreamSection(Addressed):
    """A stream that producers write alerts to: a key of Redis, or a JetStream stream of NATS with
    `subject` to take only some of it. Redis: the alert is in the field `body_field` of an entry,
    the other fields are like headers. `lease_s` is how long a message that was taken and not
    settled stays with its taker. Signatures of SNS, which are of HTTPS deliveries, are not
    verified: whoever may write to the stream is vouched for by its server."""

    SCHEMES = BROKERS

    stream: str
    subject: str = ""
    group: Name = "triage"
    format: Literal["native", "alertmanager", "grafana", "pagerduty", "cloudevents", "sns"] = (
        "native"
    )
    integration: str = ""
    tenant: str = ""
    body_field: str = "body"
    batch: Annotated[int, Field(ge=1, le=1000)] = 100
    lease_s: Seconds = 30.0
    max_deliveries: Count = 5

    @model_validator(mode="after")
    def _has_an_address(self) -> Self:
        if bool(self.url) == self.is_elsewhere:
            raise ValueError("set one of url, url_env and url_file")
        return self


def embedded_elsewhere(store: StoreSection, queue: QueueSection) -> str:
    """What is wrong with an embedded queue that names another database than the store's."""
    if not queue.is_embedded or not queue.url or queue.url == store.url:
        return ""
    return "an embedded queue lives in the store: give it the store's url, or none"


def shorthand(document: Mapping[str, Any]) -> dict[str, Any]:
    """`store = "…"` and `queue = "…"` as the sections they are short for."""
    return {
        key: {"url": value} if key in ("store", "queue") and isinstance(value, str) else value
        for key, value in document.items()
    }
