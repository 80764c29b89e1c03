"""Tables of what flows: heartbeats, counts by the minute, labels and no-reads, plans."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.world import calendar
from bench.world.canonical import Times
from bench.world.chance import belows, uniforms
from bench.world.fault_kinds import level
from bench.world.floor import (
    MINUTE_S,
    SLOT_S,
    SNAPSHOT_S,
    Columns,
    Floor,
    ascending,
    integers,
    texts,
)
from bench.world.layout import ASSETS

PRINTERS = ASSETS["PR"]
BLOCK_S = 3 * 3600  # for which a printer's habits last
USUAL_PCT = 1.0  # of the scans are no-reads on an ordinary day
IDENTIFIED = 0.70  # of the no-reads are traced to a printer
FEW = 0.04  # of the blocks, with two printers at work
FEEBLE = 0.03  # of blocks and printers, with labels a little worse than the others'

Shares = NDArray[np.float64]


def feed_heartbeat(floor: Floor) -> Columns:
    at = floor.grid(SNAPSHOT_S)
    return floor.kept({"site": floor.named(len(at)), "at": at}, "at")


def flow_minute(floor: Floor) -> Columns:
    of, site = floor.minutes, floor.site
    batch = np.arange(of.minutes, dtype=np.int64)
    columns = {
        "site": floor.named(of.minutes),
        "batch_id": batch,
        "at": floor.start + MINUTE_S * (batch + 1),
        "arrivals": integers(of.arrivals[site]),
        "pack_completions": integers(of.pack[site]),
        "reads": integers(of.reads[site]),
        "unassigned": integers(of.unassigned[site]),
    }
    return floor.kept(columns, "at")


def forecast(floor: Floor) -> Columns:
    slot = _slots(floor)
    of, site = floor.minutes, floor.site
    return {
        "site": floor.named(len(slot)),
        "slot": slot,
        "arrivals": floor.summed(of.forecast_arrivals[site], slot + SLOT_S, SLOT_S),
        "pack": floor.summed(of.forecast_pack[site], slot + SLOT_S, SLOT_S),
    }


def _slots(floor: Floor) -> Times:
    first = floor.start // SLOT_S
    return np.arange(first, -(-floor.end // SLOT_S), dtype=np.int64) * SLOT_S


def break_plan(floor: Floor) -> Columns:
    breaks = calendar.breaks(floor.site, floor.start, floor.end)
    return {
        "site": floor.named(len(breaks)),
        "start": integers([pause.start for pause in breaks]),
        "end": integers([pause.end for pause in breaks]),
    }


# --- labels -----------------------------------------------------------------------------------


class Labels:
    """Which printers print, and whose labels are not read, block by block."""

    def __init__(self, floor: Floor) -> None:
        self._first = floor.start // BLOCK_S
        blocks = np.arange(self._first, floor.end // BLOCK_S + 1, dtype=np.int64)
        number = np.arange(len(PRINTERS), dtype=np.int64)
        cell = blocks[:, None] * len(PRINTERS) + number
        day = (blocks * BLOCK_S // 86_400)[:, None] * len(PRINTERS) + number
        weight = 0.7 + 0.6 * uniforms(floor.key("printer weight"), day)
        few = uniforms(floor.key("few printers"), blocks) < FEW
        self.bad = floor.episodes("label_print_poor")
        for episode in self.bad:
            # A printer alone at work would hide behind its own share of the labels.
            few &= ((blocks + 1) * BLOCK_S <= episode.onset) | (blocks * BLOCK_S > episode.end)
        alone = belows(len(PRINTERS), floor.key("few printers", "first"), blocks)
        pair = (number == alone[:, None]) * 0.62 + (number == (alone[:, None] + 3) % 8) * 0.38
        weight = np.where(few[:, None], pair, weight)
        self._shares = weight / weight.sum(axis=1, keepdims=True)
        feeble = uniforms(floor.key("feeble"), cell) < FEEBLE
        worse = self._shares * np.where(
            feeble, 2.5 + 2.5 * uniforms(floor.key("feeble", "by"), cell), 1.0
        )
        self._unread = worse / worse.sum(axis=1, keepdims=True)

    def shares(self, times: Times) -> Shares:
        """[time, printer]: of the labels."""
        found: Shares = self._shares[times // BLOCK_S - self._first]
        return found

    def unread(self, times: Times) -> Shares:
        """[time, printer]: of the labels that are not read, but for bad printing."""
        found: Shares = self._unread[times // BLOCK_S - self._first]
        return found


def label_count(floor: Floor) -> Columns:
    at = floor.grid(SNAPSHOT_S)
    printed = floor.summed(floor.minutes.pack[floor.site], at, SNAPSHOT_S)
    labels = apportioned(floor, "labels", printed, Labels(floor).shares(at))
    return by_batch(floor, at, "printer", PRINTERS, "labels", labels)


def apportioned(floor: Floor, what: str, total: NDArray[Any], shares: Shares) -> NDArray[np.int64]:
    """Whole parcels; a part of one is kept or dropped by chance."""
    number = np.arange(shares.size, dtype=np.int64).reshape(shares.shape)
    exact = total[:, None] * shares + uniforms(floor.key("apportioned", what), number)
    return integers(np.floor(exact))


def by_batch(
    floor: Floor, at: Times, key: str, keys: tuple[str, ...], value: str, counts: NDArray[np.int64]
) -> Columns:
    """A row for each batch and key that counted anything."""
    batch, index = np.nonzero(counts)
    columns: Columns = {
        "site": floor.named(len(batch)),
        "batch_id": integers(at[batch] // SNAPSHOT_S),
        "at": at[batch],
        key: texts(keys)[index],
        value: counts[batch, index],
    }
    return floor.kept(columns, "at")


def no_read(floor: Floor) -> Columns:
    counts = integers(floor.minutes.no_reads[floor.site])
    minute, tunnel = np.repeat(np.indices(counts.shape).reshape(2, -1), counts.ravel(), axis=1)
    number = np.arange(len(minute), dtype=np.int64)
    at = floor.start + MINUTE_S * minute + 1 + belows(MINUTE_S, floor.key("no-read at"), number)
    printer = _unread_printers(floor, at, number)
    columns: Columns = {
        "site": floor.named(len(at)),
        "parcel_id": texts([f"P{one:08d}" for one in number.tolist()]),
        "at": at,
        "tunnel": texts(ASSETS["ST"])[tunnel],
        "printer": texts(["", *PRINTERS])[printer + 1],
    }
    return ascending(floor.kept(columns, "at"), "at")


def _unread_printers(floor: Floor, at: Times, number: NDArray[np.int64]) -> NDArray[np.int64]:
    """The index of each no-read's printer, -1 where nobody found out."""
    labels = Labels(floor)
    reach = np.cumsum(labels.unread(at), axis=1)[:, :-1]
    drawn = uniforms(floor.key("no-read printer"), number)
    printer = integers((drawn[:, None] >= reach).sum(axis=1))
    bad = uniforms(floor.key("no-read bad"), number)
    for episode in labels.bad:
        points = level(episode, at)
        printer[bad < points / (points + USUAL_PCT)] = PRINTERS.index(episode.asset)
    printer[uniforms(floor.key("no-read identified"), number) >= IDENTIFIED] = -1
    return printer
