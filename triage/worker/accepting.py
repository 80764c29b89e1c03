"""What follows once arrivals are durable, whichever way they came in."""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from triage.intake.request import Parsed
from triage.model.alert import Accepted, AcceptStatus
from triage.ports import Queue
from triage.telemetry.edge_metrics import IntakeCell
from triage.worker.backoff import TROUBLE

TRUNCATED = "truncated"

LOGGER = "triage.intake"


async def publish_new(queue: Queue, accepted: Sequence[Accepted]) -> None:
    """Wake a worker for those that make work. Raises nothing that passes by itself: they are
    durable already, and the sweeper publishes what no queue holds."""
    work = [
        (one.alert_id, one.severity)
        for one in accepted
        if one.alert_id is not None and one.status is AcceptStatus.NEW
    ]
    if not work:
        return
    try:
        await queue.publish(work)
    except TROUBLE as error:
        structlog.get_logger(LOGGER).warning("publish_failed", alerts=len(work), error=str(error))


def count(
    metrics: IntakeCell, payload_format: str, parsed: Parsed, accepted: Sequence[Accepted]
) -> None:
    """`accepted` are the answers to the arrivals of `parsed`, in their order."""
    log = structlog.get_logger(LOGGER)
    for one in accepted:
        metrics.alert(one.status)
    if parsed.rejected:
        metrics.rejected(len(parsed.rejected))
        for bad in parsed.rejected:
            log.warning(
                "refused",
                format=payload_format,
                index=bad.index,
                field=bad.field,
                problem=bad.problem,
            )
    first_told = any(
        arrival.event == TRUNCATED and one.status is not AcceptStatus.DUPLICATE
        for arrival, one in zip(parsed.arrivals, accepted, strict=True)
    )
    if first_told:
        metrics.truncated(parsed.truncated)
        log.warning("truncated_upstream", format=payload_format, alerts=parsed.truncated)
    resolved = [one.alert_id for one in accepted if one.status is AcceptStatus.RESOLVED]
    if resolved:
        log.info("resolved", format=payload_format, alert_ids=resolved)
