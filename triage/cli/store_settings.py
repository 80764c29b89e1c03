"""The configuration for a command that opens the store, with no more secrets than that takes."""

from __future__ import annotations

import os
from pathlib import Path

from pydantic import BaseModel

from triage.app.delivery_sections import QueueSection, StoreSection
from triage.app.settings import Settings
from triage.app.settings_faults import Places
from triage.app.settings_places import settle
from triage.errors import InvalidFiles


class _Where(BaseModel):
    store: StoreSection
    queue: QueueSection


def store_settings(config: Path, *, with_queue: bool = False) -> Settings:
    """Only the secrets of the store have been read, and of the queue `with_queue`: whoever looks
    into the store need not have those of every source and sink. Raises InvalidFiles."""
    settings = Settings.load(config, os.environ, read_secrets=False)
    wanted = _Where(store=settings.store, queue=settings.queue if with_queue else QueueSection())
    places = Places(str(config), config.read_text(), set())
    settled, faults = settle(wanted, config.resolve().parent, os.environ, places)
    if faults:
        raise InvalidFiles(faults)
    more = {"queue": settled.queue} if with_queue else {}
    return settings.model_copy(update={"store": settled.store, **more})
