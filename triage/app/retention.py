"""What is older than the configuration keeps is deleted, once an hour."""

from __future__ import annotations

import asyncio
import random
from dataclasses import asdict
from datetime import timedelta

import structlog

from triage.app.delivery_sections import StoreSection
from triage.errors import StoreError
from triage.ports import Clock, Retention

EVERY_S = 3600.0
JITTER = 0.2  # of it, either way: replicas that started together need not do it together


async def retain(retention: Retention, section: StoreSection, clock: Clock) -> None:
    """Until cancelled. Several replicas of one store may run it: each deletes what is left."""
    log = structlog.get_logger("triage.retention")
    while True:
        now = clock.now()
        try:
            bodies = await retention.purge_evidence(
                older_than=now - timedelta(days=section.evidence_days),
                max_bytes=section.evidence_max_bytes,
            )
            if bodies:
                log.info("evidence_purged", bodies=bodies)
            purged = await retention.purge(
                older_than=now - timedelta(days=section.keep_days), max_bytes=section.max_bytes
            )
            if purged.anything:
                log.info("purged", **asdict(purged))
        except StoreError as error:
            log.warning("retention_failed", error=str(error))
        await asyncio.sleep(EVERY_S * random.uniform(1 - JITTER, 1 + JITTER))
