"""From a `[sinks.NAME]` section to a sink and how its outbox is worked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import assert_never

from triage.app.sections import AnySink, JsonLinesSinkSection, WebhookSinkSection
from triage.ports import Clock, Sink
from triage.worker.outbox import OutboxOptions


def make_sinks(
    sections: Mapping[str, AnySink], clock: Clock
) -> Iterator[tuple[Sink, OutboxOptions]]:
    """Raises ConfigError for a section that cannot work."""
    for name, section in sections.items():
        match section:
            case JsonLinesSinkSection():
                from triage.adapters.sinks.jsonl import JsonLinesSink

                # One at a time: lines are appended in the order of the decisions.
                yield (
                    JsonLinesSink(name, section.path),
                    OutboxOptions(concurrency=1, max_age_s=section.max_age_s),
                )
            case WebhookSinkSection():
                from triage.adapters.sinks.webhook import WebhookSink

                yield (
                    WebhookSink(
                        name=name,
                        url=section.url,
                        secrets=section.signing_secrets,
                        clock=clock,
                        timeout_s=section.timeout_s,
                        connections=section.concurrency,
                    ),
                    OutboxOptions(concurrency=section.concurrency, max_age_s=section.max_age_s),
                )
            case _:
                assert_never(section)
